# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How far decoded data is off: the parts of `h5lossy.assess` and ``h5lossy assess``.

The metrics are those of cuZ-Checker (Zhang et al. 2021), with consistent definitions, and more;
``docs/assess.md`` has them all.
"""

from __future__ import annotations

from h5lossy._public import name_publicly
from h5lossy.assessment._assess import assess
from h5lossy.assessment._assessor import Assessor
from h5lossy.assessment._divergence import DivergenceReport, assess_divergence
from h5lossy.assessment._many import assess_all
from h5lossy.assessment._options import (
    PROFILES,
    AssessOptions,
    memory_bytes,
    number_of_bytes,
)
from h5lossy.assessment.metrics import Block, Metric
from h5lossy.assessment.report import Report
from h5lossy.assessment.reports import Reports
from h5lossy.assessment.requirements import MEASURES, Requirement, parse_requirements
from h5lossy.assessment.schema import GROUPS, SCHEMA, Failure

__all__ = [
    "GROUPS",
    "MEASURES",
    "PROFILES",
    "SCHEMA",
    "AssessOptions",
    "Assessor",
    "Block",
    "DivergenceReport",
    "Failure",
    "Metric",
    "Report",
    "Reports",
    "Requirement",
    "assess",
    "assess_all",
    "assess_divergence",
    "memory_bytes",
    "number_of_bytes",
    "parse_requirements",
]

name_publicly(__name__)
