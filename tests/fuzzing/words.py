"""The words that paths are made of: which of them a path parameter means."""

WORDS_FILE = "LAUNCHBAY_FUZZING_WORDS"  # the variable that names the file with noun → values
_NOUNS = {
    "orgId": "organizations",
    "userId": "users",
    "roleId": "roles",
    "appId": "applications",
    "revId": "revisions",
    "envId": "environments",
    "jobId": "jobs",
    "workflow": "workflow",
    "commandname": "commandname",
}


def noun_of(path: str, parameter: str) -> str | None:
    """Return what a path parameter is one of; `{id}` says it together with the word before it."""
    if parameter in _NOUNS:
        return _NOUNS[parameter]
    before = path.partition("{" + parameter + "}")[0].rstrip("/")
    return before.rpartition("/")[2] or None
