"""`builtin:cobalt_secure_store`: keeps keys for those who may use them (manifest-language §8)."""

from launchbay.service_types.contract import Passive


class SecureStore(Passive):
    """The store that every organization has; it takes no parameters."""

    id = "builtin:cobalt_secure_store"
    name = "Credentials service"
