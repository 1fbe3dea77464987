"use strict";
// The export of the selected rollouts as JSON lines, shard by shard.
barl.exporter = (() => {
  async function lines(selection) {
    const parts = [];
    for (const [n, row] of selection.entries()) {
      const { group, rollout } = await barl.store.rollout(row);
      const { rollouts, ...prompt } = group;
      const record = { ...prompt, completion: rollout.tokens.join(""), ...rollout };
      const partner = await barl.store.partner(row);
      if (partner) record.compared = { run: barl.store.runs[1].name, completion: partner.rollout.tokens.join(""), ...partner.rollout };
      parts.push(`${JSON.stringify(record)}\n`);
      if (n % 200 === 199) {
        barl.say(`${barl.whole(n + 1)} of ${barl.whole(selection.length)} rollouts read`);
        await new Promise((done) => setTimeout(done));
      }
    }
    return parts;
  }

  async function save(selection, name) {
    const address = URL.createObjectURL(new Blob(await lines(selection), { type: "application/jsonl" }));
    const link = barl.el("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    barl.say(`${barl.plural(selection.length, "rollout")} exported`);
  }

  return { save };
})();
