"""Routes calls to implementations of an operator: shares of calls, comparisons, fallbacks, and a monitor.

Several versions of an operator run side by side in a service. `routes` gives each a share of the calls, compares some
results with those of a reference version, answers by the reference where a version fails, and counts.

Read `shares`, `calls`, `limits`, `versions` and `route`, then `registry`. `monitor` and `prometheus` show what was
counted.
"""

from __future__ import annotations

from pypto.routing.monitor import Report
from pypto.routing.registry import FunctionRoute, Routes, RowRoute
from pypto.routing.route import Route

routes = Routes()
report = routes.report

__all__ = ["FunctionRoute", "Report", "Route", "Routes", "RowRoute", "report", "routes"]
