"""SCIM 2.0: who belongs to an organization, as its identity provider says."""

from launchbay.feature import Feature
from launchbay.features.scim import rows
from launchbay.features.scim.door import Scim
from launchbay.features.scim.usecases import apply_groups, find_stuck, provisioned_in
from launchbay.usecases.context import Ports

FEATURE = Feature(
    name="scim",
    protocols=(Scim(),),
    traces=rows.traces,
    stuck=find_stuck,
    ports=Ports(provisioned_in=provisioned_in, apply_groups=apply_groups),
)
