from ..report.conftest import drawn

__all__ = ["drawn"]
