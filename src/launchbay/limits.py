"""All limits. A request beyond one gets a clean 4xx, never a crash (promise 11)."""

KIB = 1024
MIB = 1024 * KIB

# Manifests. Settings can raise the first four.
MANIFEST_BYTES = 512 * KIB
MANIFEST_NODES = 100_000  # with aliases expanded
MANIFEST_EXPRESSIONS = 50_000  # `$`, `{{` and `}}` in parameters and return values, with aliases expanded
MANIFEST_BOUND_PINS = 20_000  # targets of all binds, with wildcards expanded
MANIFEST_DEPTH = 64
POLICY_NODES = 20_000  # of the policies of an environment
MANIFEST_EXPANDED_CHARS = 4 * MIB  # of all scalars, with aliases expanded
FINDING_CHARS = 2_000
MANIFEST_SOURCE_S = 20.0  # to load one from its URL
MANIFEST_MESSAGE_CHARS = 500  # what a version changed
USED_VERSIONS_COMPILED = 8  # in one request that compares all versions in use, where digests are missing
USED_VERSIONS_COMPILED_BYTES = 512 * KIB  # of their texts; then no further one
MANIFEST_FINDINGS = 200  # shown; the others are only counted
MANIFEST_ERRORS = 1_000  # then checking stops
TYPE_DEPTH = 16  # nesting of list<map<…>> in a pin's type
EXPRESSION_RESULT_ITEMS = 100_000  # of one broadcast or wildcard
EXPRESSION_TEXT_CHARS = 4 * MIB  # of one string with expressions
EXPRESSION_TOTAL_CHARS = 16 * MIB  # of all strings in the value of one template
EXPRESSION_WORK_ITEMS = 500_000  # values read or copied by the evaluation of one template
TRIGGER_ROUNDS = 50  # runs of one triggered workflow in a row that one change may start
PERSON_FIRST_S = 15.0  # that triggered workflows wait for a person whom one of them has kept out
EXPRESSION_NS = 10_000_000_000  # nanoseconds that the work of one evaluation may cost
EXPRESSION_MEMORY_BYTES = 64 * MIB  # of one evaluation; the default of a setting
EXPRESSION_INLINE_NS = 4_000_000  # nanoseconds that an evaluation in the server costs; another process does more
EXPRESSION_INLINE_BYTES = 2 * MIB  # of an evaluation in the server
EXPRESSION_CPU_S = 30  # after which the system ends a process that evaluates, whatever it was charged
EXPRESSION_WALL_S = 90.0  # for one evaluation in another process, with its transport
EXPRESSION_WORKERS = 2  # processes that evaluate for one server process
EXPRESSION_WORKER_IDLE_S = 30.0  # after which such a process ends
REGEX_CHARS = 1_000  # of a regular expression
REGEX_GROUPS = 100
REGEX_INSTRUCTIONS = 10_000  # of a regular expression, compiled
REGEX_BYTES = 1 * MIB
RUNTIME_NESTING = 32  # macros calling macros, commands calling commands
RECORDS_PAGE = 500  # of a job that continues, read and decoded together
STEPS_AT_ONCE = 64  # that begin or continue in one pass of the event loop, of all jobs of a process
JOB_STEPS = 20_000  # of one job, including those inside macros and commands; calls that double reach it fast

# Request bodies and JSON.
JSON_BODY_BYTES = 1 * MIB
ORGANIZATION_ARCHIVE_BYTES = 16 * MIB  # of an archive in one document, or of the first line of one in lines
ARCHIVE_MANIFEST_BYTES = 1024 * MIB  # of all versions of all manifests in an archive in lines
ARCHIVE_LINES_BYTES = 2048 * MIB  # of an archive in lines: texts take more bytes in JSON
ARCHIVE_CHUNK_BYTES = 1 * MIB  # of manifests that are read or written together
JSON_DEPTH = 64
JSON_CONTAINERS = 400_000  # arrays and objects of one body
NAME_CHARS = 255
USER_DATA_BYTES = 256 * KIB
PATH_SEGMENT_CHARS = 512

# Headers and slow clients.
HEADER_BYTES = 32 * KIB
HEADER_LINES = 100
WARNINGS_HEADER_BYTES = 2 * KIB  # of the header with the warnings of an answer
COOKIES_CHARS = 24 * KIB  # of all cookies of a request; other applications on the same host have theirs
COOKIE_CHARS = 4 * KIB  # of one of ours; browsers keep no longer ones
HEADER_READ_S = 10.0
BODY_READ_S = 30.0
UPLOAD_STALL_BYTES = 32 * KIB  # an upload of a file may take longer while it sends this much in BODY_READ_S
RESPONSE_STALL_S = 30.0  # a client that reads less than RESPONSE_STALL_BYTES in this time is disconnected
RESPONSE_STALL_BYTES = 32 * KIB
LINGER_S = 2.0  # between a rejection and the end of the connection, so that the client reads it
KEEP_ALIVE_IDLE_S = 75
CONNECTIONS_DEFAULT = 10_000  # open at the same time, in one process
DESCRIPTORS_RESERVED = 256  # of the process's limit: calls of workflows, programs, files
DESCRIPTORS_WANTED = 65_536
PIPELINED_REQUESTS = 64  # waiting on one connection
LEFTOVER_BYTES = 8 * MIB  # of an unread body, discarded to keep the connection
CONSOLE_FORM_BYTES = 1 * MIB  # a manifest takes up to three times its bytes in a form
CONSOLE_FORM_FIELDS = 2_000
CONSOLE_PAGE_ROWS = 50  # of a list, on one page
CONSOLE_SUGGESTIONS = 200  # names that a field suggests; it accepts the others too
CONSOLE_LIST_COMPONENTS = 100  # of an instance, on one page
CONSOLE_SUBMODULES = 100  # that one form shows the parameters of
QUERY_FIELDS = 100
IDEMPOTENCY_KEY_CHARS = 255
IDEMPOTENCY_KEY_HOURS = 24
READY_S = 2.0  # for the database's response to a readiness check

# Lists.
LIST_CHUNK_ROWS = 2_000
LOG_CHUNK_LINES = 500
LOG_SEARCH_TURN_BYTES = 2 * MIB  # of lines without a hit, after which a search gives way to others
LOG_SEARCH_PAUSE_S = 0.05  # that long
LIST_CHUNK_BYTES = 128 * KIB  # of texts in one chunk of a list, masked together
LIST_LIMIT_MAX = 10_000
LIST_WAITS_FOR_LAUNCHES_S = 2.0  # whose commit could bring an older instance than the newest of the list
PAGE_ROWS = 100  # of a list that always has pages, by default
PAGE_ROWS_MAX = 1_000
COUNTED_JOBS = 100_000  # the most that a list of jobs counts
SAVED_VIEWS = 50  # of one person in one organization
VIEW_NAME_CHARS = 60
VIEW_QUERY_CHARS = 1_000
COUNTED_RUNNING_JOBS = 1_000  # shown in the navigation of the console
FILTER_VALUES = 100  # of one filter of a list
SEARCH_WORDS = 10
METRIC_NAMES = 64  # of applications, of environments, and values of each label, in the metrics of a process
HISTORY_JOBS = 100  # newest jobs shown in workflowHistory
HISTORY_STEPS_BYTES = 2 * MIB  # of the steps of these jobs; only …/jobs lists older ones
JOBS_CHUNK = 50  # of the list of jobs, read together; each has up to JOB_STEPS steps
USUAL_RUNS = 20  # the median of their durations is the usual one
USUAL_JOBS = 500  # newest ones of the instance that are looked through for them
USUAL_INSTANCES = 50  # of the application, whose runs count too
JOB_OUTPUTS_SHOWN_BYTES = 1 * MIB  # of all steps of one job together
JOB_INPUTS_SHOWN_BYTES = 1 * MIB  # the same; those of failed steps come first

# Bulk runs.
BULK_INSTANCES = 10_000  # of one bulk run
RECURRING_SCHEDULES = 10_000  # of one organization
RECURRING_SHORTEST_S = 10  # between two firings
RECURRING_FIRINGS = 20  # that are kept of each
RECURRING_JITTER_MS = 24 * 3_600_000
BULK_PARALLEL = 100  # jobs of one bulk run at the same time
BULKS_OPEN = 50  # of one organization
BULK_DAYS = 90  # that an ended one stays
BULK_BUSY_PAUSE_S = 2.0  # before another attempt at an instance that was busy
BULK_BUSY_LONGEST_PAUSE_S = 60.0  # before another one at an instance that has been busy for long
BULK_BUSY_S = 24 * 3_600.0  # after which a busy instance is refused

# Change sets.
CHANGE_SET_INSTANCES = 200  # of one change set, which is applied in one transaction
CHANGE_SETS_OPEN = 100  # of one organization
CHANGE_SET_DAYS = 90  # that an ended one stays
CHANGE_SET_EXPIRY_MS = 7 * 24 * 3_600_000  # by default
CHANGE_SET_EXPIRY_LONGEST_MS = 30 * 24 * 3_600_000
CHANGE_SET_COMMENT_CHARS = 2_000
REPLAN_TRIES = 10  # at what follows a change set that stopped, while what refuses it may pass
REPLAN_PAUSE_S = 60.0  # between them

# Rules about changes.
CHANGE_RULES_BYTES = 64 * KIB  # in one text, which is that of an organization, an application or an environment
CHANGE_RULES_NODES = 2_000  # with aliases expanded
CHANGE_RULES_EXPRESSIONS = 500
CHANGE_RULES = 50  # in one text
CHANGE_RULE_NS = 2_000_000.0  # that one condition may cost
CHANGE_RULE_MEMORY_BYTES = 8 * MIB  # a regular expression counts for its bound
CHANGE_RULE_SENTENCE_CHARS = 1_000
CHANGE_RULE_APPROVALS = 10
WARNINGS_RECORDED = 20  # of one change, in the audit log
CHANGE_RULE_VERSIONS = 100  # that are kept of one text
CHANGE_RULES_CHECKED = 200  # recent changes, before a text is saved
CHANGE_RULES_LOOKED_AT = 2_000  # of the organization, for those that a text is about

# Sources in Git.
DIRECTORY_FILES = 5_000  # of a change set that applies a directory
DIRECTORY_BYTES = 8 * MIB  # of all of them
DIRECTORY_PATH_CHARS = 1_000
DIRECTORY_SHOWN_INSTANCES = 200  # of those that a directory concerns
DIRECTORY_DIFFERENCE_CHARS = 20_000  # shown of one text before and after
GIT_SOURCES = 500  # of one organization
GIT_URL_CHARS = 2_000
GIT_FETCH_S = 120.0  # for one fetch, with its connection
GIT_REPOSITORY_BYTES = 256 * MIB  # of one commit with its files, compressed
GIT_MEMORY_BYTES = 2_048 * MIB  # of address space, for the program
GIT_FILES = 5_000  # at the path of a source
GIT_LISTING_BYTES = 4 * MIB  # of their names
GIT_FILE_BYTES = 2 * MIB
GIT_CONTENT_BYTES = 8 * MIB  # of all files at the path of a source
GIT_DEPTH = 16  # folders within folders
GIT_INTERVAL_SHORTEST_MS = 30_000
GIT_EVENT_BYTES = 2 * MIB  # of one event that a forge sends
GIT_SYNCS = 200  # that are kept of each source
GIT_EVENT_DAYS = 7  # an older event is refused, a younger one is accepted once
GIT_PREVIEWS = 50  # of one source at a time
GIT_PREVIEW_LONGEST_MS = 90 * 24 * 3_600_000

# Rollouts.
ROLLOUT_WAVES = 50
ROLLOUTS_OPEN = 100  # of one organization
ROLLOUT_DAYS = 90  # that an ended one stays
ROLLOUT_PAUSE_LONGEST_MS = 7 * 24 * 3_600_000

# Limits of how many jobs run at a time.
CONCURRENCY_LIMIT_MAX = 1_000  # the greatest such limit
CONCURRENCY_LIMITS = 20  # of one application, environment, manifest or workflow
CONCURRENCY_PLACES_SHOWN = 1_000  # in the list of those of an organization

# Labels.
LABELS = 32  # of one object
LABEL_NAME_CHARS = 63
LABEL_VALUE_CHARS = 128
LABEL_SELECTOR_CHARS = 2_000

# Live events of instances.
EVENT_STREAMS = 1_000  # open at the same time, in one process
EVENTS_CHUNK = 500  # of one query
EVENT_POLL_PAUSE_S = 0.05  # between two queries of a stream, regardless of notifications
EVENT_HEARTBEAT_S = 15.0
EVENT_RETENTION_DAYS = 7

# Quotas of organizations whose counts a process caches.
QUOTAS_CACHED = 10_000

# History that is deleted by age.
JOBS_RETAINED = 100  # newest jobs of an instance, never deleted by age

# Running workflows.
STEP_RETRIES_MAX = 100
EACH_ITEMS = 1_000  # of one loop, so that the journal stays readable
EACH_PARALLEL_MAX = 100
UNTIL_ROUNDS = 10_000
UNTIL_DELAY_S = 10.0  # without a delay of its own
STEP_OUTPUT_BYTES = 4 * MIB
STEP_INPUTS_BYTES = 4 * KIB  # of a step, kept for display
JOB_VALUES_BYTES = (
    16 * KIB
)  # of the parameters of a launch or reconfiguration, and of what it returned, kept for display
INLINE_BYTES = 64 * KIB  # of data that the event loop computes with; a thread does it with more
VALUE_BYTES = 64  # that each value counts for in the next six, in addition to the characters of a text
STEP_OUTPUT_SIZE_BYTES = 6 * MIB  # of the outputs of a step
LOOP_OUTPUT_BYTES = 16 * MIB  # of the outputs of all items of a loop that the step names
VARIABLES_BYTES = 64 * MIB  # of what steps have set in all workflows that a job is running
PARAMETERS_BYTES = 2 * MIB  # of a launch, a reconfiguration, or a command
VALUES_BYTES = 4 * MIB  # of the arguments of a call, a workflow's return values, and all that an instance keeps
FED_SIGNALS_BYTES = 16 * MIB  # that one instance passes on to all its submodules at the end of a job
LOG_LINE_CHARS = 4_096
LOG_STEP_LINES = 30_000  # of one step, in one claim of its job; more than the output of commands may have
LOG_STEP_CHARS = 8 * MIB
LOG_JOB_LINES = 200_000  # of all steps of a job
LOG_JOB_CHARS = 64 * MIB
ERROR_CHARS = 8_192  # of one message of a step, job or instance
PEERS_MAX = 10_000  # that one waitPeers may ask for, of one interface
WAIT_PEERS_S = 3600.0  # default timeout
COMMAND_WAITS_FOR_LAUNCH_S = 3600.0  # a command to a component that is still launching
CALL_WAITS_FOR_INSTANCE_S = 3600.0  # a workflow of another, busy instance
SERVICE_LAUNCH_S = 600.0  # a launch that needs signals of a service that is still launching
WAIT_LONGEST_S = 7 * 24 * 3600.0

SLOT_RELEASED_FROM_S = 1.0  # a shorter pause keeps its slot

# Approvals.
APPROVAL_TEXT_CHARS = 4_000
APPROVAL_COMMENT_CHARS = 4_000
APPROVAL_S = 7 * 24 * 3600.0  # default timeout
APPROVAL_LONGEST_S = 90 * 24 * 3600.0
APPROVALS_NEEDED = 100  # of one step
APPROVALS_PENDING = 10_000  # of one organization

# Programs that actions start on this server.
PROGRAM_S = 3_600.0  # default timeout
PROGRAM_LONGEST_S = 24 * 3_600.0
PROGRAM_OUTPUT_BYTES = 64 * KIB  # of the end of each of its streams
PROGRAM_EVENT_CHARS = 4 * MIB  # of one event from Ansible, a line of JSON
ANSIBLE_CHECK_BYTES = 4 * MIB  # of what the tasks of one playbook say that they would do
STEP_DOCUMENT_BYTES = 16 * MIB  # stored by a step beyond its job, such as the state of OpenTofu
ADOPTED_STATE_BYTES = 8 * MIB  # all states of one adoption together: the body of the request
ADOPTED_STATES = 100  # of one adoption
ADOPTED_ADDRESSES = 200  # of the resources of one state, that are kept and shown
ADOPTED_IDENTITY_CHARS = 1_000  # of what names it in its organization
ADOPTED_LOOK_S = 25.0  # that a request waits for a server that looks at what runs
LOOK_FRESH_S = 120.0  # for which a look that has ended answers a request that asks the same again
ADOPTED_HOSTS_S = 15.0  # of it, for all hosts of a step to answer
LOOKS_AT_ONCE = 4  # of these, in one process
TOFU_MODULE_BYTES = 4 * MIB  # of it, for a module
TOFU_GRACE_S = 30.0  # to finish running operations, so that the state records them
DOCUMENT_NAME_CHARS = 100
PLAN_EFFECTS = 2_000  # of one step
PLAN_BYTES = 1 * MIB  # of the effects of one step
PLAN_VALUE_BYTES = 16 * KIB  # of a value before or after; a larger one isn't shown
PLAN_ARTIFACT_BYTES = 8 * MIB  # with which one step runs as it was planned
PLAN_WARNINGS = 50
PLAN_S = 900.0  # of all steps of one plan
PLAN_ATTEMPTS = 3  # to make one plan, whose server ended each time
PLAN_DAYS = 7.0  # a plan that nobody keeps longer, with its artifacts
PLANS_WAITING = 50  # of one organization, which nobody has begun or that are under way
PLANS_KEPT = 500  # of one organization
PLAN_PATTERNS = 100  # of deletions that one approval allows
PLAN_TOTAL_BYTES = 32 * MIB  # of all artifacts of one plan
PLAN_RESULT_BYTES = 2 * MIB  # of all effects of one plan
PLANS_RESULT_BYTES = 16 * MIB  # of the effects of all plans of one change set, which are shown together
PLANS_ARTIFACT_BYTES = 512 * MIB  # of all artifacts that an organization keeps for the jobs of change sets
DRIFT_FINDINGS = 1_000  # open ones of one instance
DRIFT_CLOSED = 50  # findings of one instance that are gone, put back or taken over
DRIFT_BYTES = 1 * MIB  # of the findings of one instance; beyond it, values are left out
DRIFT_ANSWER_BYTES = 256 * KIB  # of answers of `plan` in the baseline of one instance; beyond it, only their digests
DRIFT_CHECKS = 20  # of one instance, in its history
DRIFT_WAITING = 500  # instances of one organization that wait for a check that somebody asked for
DRIFT_QUEUE = 5_000  # and all that wait; beyond it, schedules leave the others for the next time
DRIFT_CANDIDATES = 10  # parameters of one instance that are tried to take a value over
PUT_BACK_PATTERNS = 100  # of addresses that a rule puts back, and as many that it may delete
PUT_BACKS_PER_DAY = 24  # of one address, at most, that a rule may allow
PUT_BACKS_UNAPPLIED = 5  # change sets of one rule that it has made and not applied yet; the other instances wait
DRIFT_IGNORED_DAYS = 366  # for which somebody may ignore a finding
TEARDOWN_S = 3_600.0  # of the resources of one such document
ARCHIVE_FETCH_S = 300.0
ARCHIVE_BYTES = 32 * MIB
ARCHIVE_UNPACKED_BYTES = 256 * MIB
ARCHIVE_FILES = 20_000
ARCHIVE_HEADER_BYTES = 64 * KIB  # of all headers of one member

# Kubernetes.
KUBERNETES_CALL_S = 60.0
KUBERNETES_READY_S = 600.0  # until objects are ready or deleted
KUBERNETES_OBJECTS = 500  # of one step
HELM_RELEASE_BYTES = 16 * MIB  # of a release that Helm describes, with its chart
KUBERNETES_NODES = 100_000  # values in their YAML

# Notifications.
MAIL_TIMEOUT_S = 30.0  # for one response of the mail server
MAIL_PUT_OFF_S = 30 * 60.0  # from the first attempt to the last one, if the mail server puts recipients off
MAIL_RETRY_FIRST_S = 60.0  # until the second attempt; the pause doubles
MAIL_RETRY_LONGEST_S = 300.0
MAIL_RECEIVERS = 100  # of one email
MAIL_SUBJECT_CHARS = 300
MAIL_TEXT_CHARS = 1 * MIB
NOTIFICATION_BYTES = 64 * KIB  # sent to webhooks by one step

# Outgoing HTTP of actions.
EGRESS_BODY_BYTES = 8 * MIB
EGRESS_TIMEOUT_S = 60.0
EGRESS_TIMEOUT_LONGEST_S = 3600.0
EGRESS_REDIRECTS = 5
EGRESS_CONNECT_S = 10.0  # for one address of a host
EGRESS_NAME_S = 3.0  # for a name that the outgoing proxy resolves anyway
EGRESS_NAMES = 16  # resolved at the same time, of one process
EGRESS_ADDRESSES = 16  # tried of one host
EGRESS_CONNECTIONS = 200  # at the same time, of one process
EGRESS_URL_CHARS = 8_192

# Webhooks.
WEBHOOK_URL_CHARS = 2_048
WEBHOOK_SECRET_MIN_BYTES = 16
WEBHOOK_SECRET_BYTES = 1_024
WEBHOOK_TIMEOUT_S = 10.0  # for one attempt
WEBHOOK_RESPONSE_BYTES = 64 * KIB
WEBHOOK_DELIVERIES_COUNTED = 1_000  # newest ones of each webhook
WEBHOOKS_AT_ONCE = 40  # running requests, in one process
WEBHOOK_AT_ONCE = 4  # of them to one webhook
WEBHOOK_RETRY_FIRST_S = 5.0
WEBHOOK_RETRY_LONGEST_S = 3_600.0
WEBHOOK_GIVE_UP_S = 24 * 3_600.0  # after which a delivery isn't retried
WEBHOOK_DISABLED_AFTER_S = 3 * 24 * 3_600.0  # without a success
WEBHOOK_PENDING = 10_000  # deliveries that wait for one webhook
WEBHOOK_LOG_DAYS = 7
CHAT_HOLD_S = 60.0  # after a message, in which equal failures wait for the next one
CHAT_INSTANCES_NAMED = 3  # in a message about several

# Instances and schedules.
DESTROY_INTERVAL_DEFAULT_MS = 3_600_000
TIME_LATEST_MS = 4_102_444_800_000  # of a bound that people set: the year 2100
INTERVAL_LONGEST_MS = 100 * 365 * 24 * 3_600_000

# Machines.
ROLE_MACHINES = 1_000  # of one role
MACHINES_AT_ONCE = 50  # that one step works on at the same time
SCALER_MEMBERS = 1_000  # of one composite.Scaler
RELEASES_AT_ONCE = 20  # machines that the end of an instance takes down at the same time
RELEASE_S = 600.0  # for all machines of an instance at its end, in addition to the time of its workflows

# Commands on machines.
COMMAND_S = 24 * 3_600.0  # for one command on one machine, where the manifest says nothing
COMMAND_RESULT_BYTES = 256 * KIB  # of stdout and stderr each, for the result; the middle of more is left out
COMMAND_OUTPUT_BYTES = 1024 * MIB  # that one command may write; it is ended beyond, for its machine's disk
COMMAND_SHOWN_AT_ONCE_BYTES = 256 * KIB  # of output between two looks at it; the rest of more is passed over
COMMAND_STOP_S = 5.0  # between asking a command to end and ending it
MACHINE_CONNECT_S = 30.0  # for one connection, with its sign-in
MACHINE_ADOPT_S = 5.0  # for a host that is adopted to answer; a busy SSH server may drop a first attempt
MACHINE_RECONNECT_S = 120.0  # that a machine may be out of reach while a command runs on it
JUMP_HOSTS = 8  # on the way to one machine
JUMP_TUNNELS = 100  # through one connection to a jump host, then another one is opened
MACHINE_STOP_S = 30.0  # for ending on one machine what a cancelled job left running there
MACHINES_STOP_S = 90.0  # for all machines of the job together
MACHINE_FILE_BYTES = 8 * MIB  # of an uploaded or downloaded file
MACHINE_FILE_S = 300.0  # to upload or download it
COOKBOOKS_FETCH_S = 300.0
COOKBOOKS_ARCHIVE_BYTES = 32 * MIB
COOKBOOKS_BYTES = 256 * MIB  # unpacked
COOKBOOKS_FILES = 20_000
CHEF_NODE_BYTES = 4 * MIB  # the attributes of one node
STEP_LOG_LINES_PER_S = 200.0  # sustained, of the output of commands of one step
STEP_LOG_LINES_AT_ONCE = 2_000
STEP_LOG_LINES = 20_000  # of the output of commands, in total
STEP_LOG_BYTES = 4 * MIB  # the same

# Clouds and containers.
CLOUD_CALLS = 8  # at the same time, in one process
CLOUD_CALL_S = 30.0  # for one response
CLOUD_SESSION_S = 600.0  # of a role that a job took, which AWS ends after 900
CLOUD_RESPONSE_BYTES = 32 * MIB
CLOUD_START_S = 600.0  # until a machine runs and accepts SSH, by default
CLOUD_START_LONGEST_S = 3_600.0
ENGINE_CALLS = 8  # for the containers of one step, at the same time
ENGINE_CALL_S = 60.0  # for one response of a container engine
ENGINE_RESPONSE_BYTES = 32 * MIB
SWEEP_S = 900.0  # for one sweep of orphaned machines
SWEEP_RELEASE_S = 40.0  # for one machine; its instance accepts no job in this time

# Environments.
ENVIRONMENT_ENTRIES = 1_000  # markers, properties or services of one environment

# Services.
SHARED_INSTANCES = 10_000  # entries of one catalog
POOL_RESOURCES = 1_000  # of one static pool
POOL_WAITING = 200  # waiting requests for a resource of one pool
POOL_WAIT_LONGEST_S = 300
VAULT_ENTRIES = 1_000  # key pairs and secrets of one vault
SECRET_MIN_CHARS = 6
SECRET_BYTES = 64 * KIB  # of one named secret
PRIVATE_KEY_BYTES = 16 * KIB
COMMAND_REPORTS = 1_000  # intermediate results in one command's response, the newest ones

# Authentication and authorization.
ROLE_TEXT_BYTES = 64 * KIB
ROLE_TEXTS_BYTES = MIB  # of all roles of an organization
ROLE_PATTERNS = 1_000
ROLE_PATTERN_CHARS = 1_024
PASSWORD_BYTES = 1_024
PASSWORD_CHARS = 10  # at least, of a new one
PASSWORD_CHARS_RATED = 24  # of a new one; rating takes time that grows steeply with the length
PASSWORD_RATING_S = 20.0
SECOND_STEP_S = 300  # between the password and the second factor
SECOND_FACTORS = 10  # of one account
GROUP_ROLES = 1_000  # pairs of a group and a role, of one organization
OPENID_GROUPS = 2_000  # of one person, beyond which the claim is ignored
PASSKEY_RESPONSE_CHARS = 16 * KIB
PASSWORD_VERIFICATIONS = 2  # at the same time; each takes 19 MiB
PASSWORD_VERIFICATIONS_WAITING = 64
VERIFIED_CREDENTIALS = 10_000
VERIFIED_CREDENTIALS_S = 300.0
THROTTLED_KEYS = 20_000
GRANTS_CACHED = 10_000  # parsed grants, one per user and organization
ANSWERS_KEPT_BYTES = 4 * MIB  # of instances that clients poll, with the rows that they were made of
ANSWER_KEPT_BYTES = 32 * KIB  # of one instance
SESSION_TOKEN_BYTES = 4 * KIB
SESSIONS_VERIFIED = 10_000
REFRESH_TOKENS_SUSPICIOUS = 5  # more than this in an hour is a security event
REFRESH_TOKENS_BLOCKED = 10  # more than this in an hour blocks the user's generation
REFRESH_TOKEN_BLOCK_S = 900
REFRESH_TOKEN_LIFETIME_DAYS = 365
REFRESH_TOKENS = 1_000  # valid ones of one person
REFRESH_TOKEN_LABEL_CHARS = 100
ACCESS_TOKENS = 100  # of one owner
ACCESS_TOKEN_DAYS = 366  # to its end, at most
DESCRIPTION_CHARS = 1_000
REASON_CHARS = 500  # why somebody reveals a secret
EMAIL_CHARS = 254
INVITATION_LIFETIME_DAYS = 7
ERASED_AT_ONCE = 1_000  # rows that have the address of a person who left, in one transaction
LONGEST_WAIT_S = 60  # of a request for the end of a job
FORM_BYTES = 16 * KIB  # a form of a page
AUDIT_DOCUMENT_BYTES = 64 * KIB  # of the state before or after; beyond it, its fingerprint

# Secrets that steps read from providers.
SECRET_TIMEOUT_S = 10.0  # for one request to the provider
SECRET_RESPONSE_BYTES = MIB
SECRET_FILES_AT_ONCE = 32  # that one process reads at the same time
SECRET_FILES_OF_DIRECTORY = 4  # of these, in one directory, whose disk may hang
SECRET_SESSION_S = 12.0  # to renew a session with its leases, or to revoke it
SECRET_TEST_S = 20.0  # to sign in to a provider and look at some paths
SECRET_READS_KEPT = 500  # last reads of one instance from one provider
CHANGED_SECRETS_SHOWN = 20  # of one instance
SECRET_READS_SHOWN = 200  # of one provider, the newest
SECRET_SESSIONS_AT_ONCE = 100  # that one process renews or revokes at the same time
SECRET_SESSIONS_OF_ORGANIZATION = 20  # of these, of one organization
SECRET_SESSIONS_OF_PROVIDER = 10  # of these, at one provider
SECRET_LEASE_S = 10 * 365 * 86_400  # what lasts longer counts as so long
STEP_SECRETS = 20  # of one step
PROVIDED_SECRET_BYTES = 64 * KIB  # of one value of a provider: certificates and kubeconfigs fit
STEP_SECRETS_BYTES = 256 * KIB  # of one step; all of it is searched for in each line of the log
STEP_SECRETS_VALUES = 500  # in the maps and lists of one step

# Tokens that say which job asks. Who checks one may keep the keys for as long as a new key waits.
IDENTITY_TOKEN_S = 600
IDENTITY_AUDIENCE_CHARS = 200
IDENTITY_AUDIENCES = 50  # of one environment
IDENTITY_KEYS_CACHED_S = 300
IDENTITY_KEY_SETTLES_S = 3_600.0  # a new key is published for so long before it signs

# What identity providers tell of an organization over SCIM.
SCIM_PEOPLE = 20_000
SCIM_GROUPS = 1_000
SCIM_PAGE = 200  # resources
SCIM_FULL_GROUPS = 10  # on a page that shows their members
SCIM_FILTER_CHARS = 1_000  # of a filter, and of a value that filters compare
SCIM_FILTER_TERMS = 20  # of a filter or a path, and its depth
SCIM_OPERATIONS = 100  # of a patch
SCIM_PATCH_TERMS = 200  # of all paths in a patch
SCIM_PATCH_KEYS = 500  # of all objects in a patch, without the members of groups
SCIM_EMAILS = 20  # of one person
SCIM_DOCUMENT_BYTES = 16 * KIB  # of one person
SCIM_BODY_BYTES = 256 * KIB  # of a request that isn't about a group
SCIM_REFUSALS = 10  # that are shown
SCIM_REFUSAL_CHARS = 300

# Sign-in through an OpenID Connect provider.
OPENID_ATTEMPT_S = 600
OPENID_ATTEMPTS = 5  # of one browser: each has a cookie
OPENID_TIMEOUT_S = 10.0  # for one request to the provider
OPENID_RESPONSE_BYTES = 256 * KIB
OPENID_METADATA_S = 3_600.0  # its metadata and keys are cached
OPENID_KEYS_REFRESH_S = 60.0  # between two fetches for an unknown key
OPENID_LEEWAY_S = 60  # between its clock and ours
OPENID_SUBJECT_CHARS = 255  # also of the ID of a session there
OPENID_LOGOUT_S = 300  # after which a logout token is too old

# Submodules.
SUBMODULE_LEVELS = 16
SUBMODULE_INSTANCES = 5_000  # of one launch
