"""All rules for manifests: code, name, and the text of `tenantcron explain`.

Families: TC0xx the document, TC1xx its structure, TC2xx timetables, TC3xx guardrails, TC4xx
targets, TC5xx across files. TC6xx (refusals of an apply) are in `reconciler/refusals.py`, TC7xx
(problems of the API) in `service/responses/problem_types.py`. A code never changes its meaning; a
retired code is not reused.
"""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """Whether a diagnostic fails `validate`: errors always do, warnings only with `--strict`."""

    ERROR = "error"
    WARNING = "warning"


class Rule(NamedTuple):
    """A rule: what a diagnostic of it reports, why the rule exists, and how to comply with it."""

    code: str
    name: str
    what: str
    why: str
    fix: str
    severity: Severity = Severity.ERROR


_WARNING = Severity.WARNING

_ALL = (
    Rule(
        "TC001",
        "not-utf8",
        "The file is not valid UTF-8.",
        "Other encodings can only be guessed, and a wrong guess silently changes names.",
        "Save the file as UTF-8. A byte order mark at its start is allowed.",
    ),
    Rule(
        "TC002",
        "too-large",
        "The file is larger than 1 MiB, or has more than 20,000 values.",
        "A hook that runs on every commit must be fast for any input.",
        "Move generated data out of the manifest, and scripts into separate files.",
    ),
    Rule(
        "TC003",
        "syntax-error",
        "The file is not valid YAML (or JSON, if its name ends with .json).",
        "Nothing else can be checked until the file can be parsed.",
        "Fix the text at the marked position; the cause is often on the line before.",
    ),
    Rule(
        "TC004",
        "duplicate-key",
        "A mapping has the same key twice.",
        "Most loaders silently keep only the last one, so the other value is lost.",
        "Delete or rename one of the two.",
    ),
    Rule(
        "TC005",
        "too-deep",
        "The document is nested more than 64 levels deep.",
        "No schedule needs such depth; it is a mistake or an attack on the parser.",
        "Flatten the data, or keep it as a string.",
    ),
    Rule(
        "TC006",
        "several-documents",
        "The file contains more than one YAML document.",
        "A file is the manifest of one tenant; a second document would be silently ignored.",
        "Split the file at the `---` line.",
    ),
    Rule(
        "TC007",
        "tag-not-allowed",
        "A YAML tag or directive is used.",
        "Tags make a loader create objects other than data, and loaders treat them differently.",
        "Remove the tag; quote the value if it must be a string.",
    ),
    Rule(
        "TC008",
        "alias-expansion",
        "Aliases or merge keys expand too far, refer to an unknown anchor, or contain themselves.",
        "A few hundred bytes of nested aliases can grow to gigabytes.",
        "Write the values out, or use a named entry in `schedules:`.",
    ),
    Rule(
        "TC009",
        "invalid-character",
        "A string contains a control character, a NUL or half of a surrogate pair.",
        "PostgreSQL rejects such text when the manifest is applied.",
        "Remove the character; copy and paste is a common cause.",
    ),
    Rule(
        "TC010",
        "empty-document",
        "The file is empty.",
        "An empty manifest would delete all schedules of its tenant.",
        "Write `sagas: []` if you want that, or delete the file.",
    ),
    Rule(
        "TC011",
        "key-not-a-string",
        "A key is not a string.",
        "Manifests are stored as JSON, where every key is a string.",
        "Put the key in quotes.",
    ),
    Rule(
        "TC012",
        "number-not-portable",
        "A number is infinite, not a number, or does not fit into 64 bits.",
        "JSON cannot represent it, and other parsers would silently change it.",
        "Write it as a string.",
    ),
    Rule(
        "TC013",
        "ambiguous-scalar",
        "An unquoted value has another meaning in YAML 1.1 parsers.",
        "YAML 1.1 reads `no` as a boolean, and `010` and `1_000` as other numbers.",
        "Quote the value, or write true, false or the plain number.",
        _WARNING,
    ),
    Rule(
        "TC014",
        "aliases-too-large",
        "Aliases and merge keys add more than 1 MiB to the document.",
        "Each alias is stored in full: one long text that 50 schedules share is stored 50 times.",
        "Pass a reference to the data instead, or let fewer schedules share it.",
    ),
    Rule(
        "TC101",
        "unknown-key",
        "The section has no such key.",
        "If misspelt settings were ignored, they would seem to be in effect.",
        "Correct or remove the key; the message lists the keys of the section.",
    ),
    Rule(
        "TC102",
        "missing-key",
        "A required key is missing.",
        "There is no safe default for it.",
        "Add the key that the message names.",
    ),
    Rule(
        "TC103",
        "wrong-type",
        "A value has the wrong type for its key.",
        "YAML turns unquoted text into numbers and booleans, so the intention is unclear.",
        "Write a value of the type that the message names; quote strings that look like numbers.",
    ),
    Rule(
        "TC104",
        "null-section",
        "A key has no value.",
        "`sagas:` with its entries commented out must never mean `delete all schedules`.",
        "Add the entries, write `[]` or `{}` if there are none, or remove the key.",
    ),
    Rule(
        "TC105",
        "misspelt-section",
        "A key closely resembles a section of tenantcron.",
        "Sections of other tools are ignored, so a typo in one of ours would go unnoticed.",
        "Use the suggested key, or a name that is less similar.",
    ),
    Rule(
        "TC106",
        "invalid-value",
        "A value has the right type, but its key does not allow it.",
        "It would be rejected later, or silently replaced by a default.",
        "Use one of the values, or the form, that the message names.",
    ),
    Rule(
        "TC107",
        "invalid-name",
        "A name has characters or a length that are not allowed.",
        "Names become database identifiers, headers and parts of URLs.",
        "Start with a-z, then a-z, 0-9, _ or -; at most 128 characters, tenants at most 48.",
    ),
    Rule(
        "TC108",
        "reserved-tenant",
        "The tenant id is reserved for PostgreSQL or tenantcron.",
        "Each tenant has its own schema, and these names could be confused with other schemas.",
        "Choose another id.",
    ),
    Rule(
        "TC109",
        "duplicate-saga",
        "Two sagas have the same name.",
        "The name of a saga selects its handler, so it must be unique.",
        "Rename one of them, or merge the two.",
    ),
    Rule(
        "TC110",
        "duplicate-schedule",
        "Two sagas of one tenant use the same schedule name.",
        "The name identifies the schedule with its pause, its history and its next occurrence.",
        "Give one of them another name: `scheduled: {name: …, preset: …}`.",
    ),
    Rule(
        "TC111",
        "not-one-timetable",
        "A schedule has no timetable, or more than one.",
        "Without a timetable it never fires; with two it is unclear which one applies.",
        "Keep exactly one of cron, every, daily, weekly, monthly, once, preset.",
    ),
    Rule(
        "TC112",
        "unknown-trigger",
        "A trigger has an unknown kind.",
        "A typo in `scheduled:` would create a schedule that never fires.",
        "Use scheduled:, api:, webhook: or event:.",
    ),
    Rule(
        "TC113",
        "tenant-missing",
        "The manifest has no tenant.",
        "Applied to the wrong tenant, it would replace that tenant's schedules.",
        "Add `tenant:`, pass --tenant, or name the file after the tenant.",
    ),
    Rule(
        "TC114",
        "tenant-mismatch",
        "The manifest's tenant is not the expected one.",
        "Applied to the wrong tenant, it would replace that tenant's schedules.",
        "Correct `tenant:` or the --tenant option.",
    ),
    Rule(
        "TC115",
        "misplaced-setting",
        "A setting of a schedule is next to the trigger instead of inside it.",
        "Other keys of a saga belong to other tools and are ignored, so it has no effect there.",
        "Move it below `scheduled:`, next to the timetable.",
        _WARNING,
    ),
    Rule(
        "TC116",
        "invalid-owner",
        "An owner does not have the form `user:` and an id.",
        "It is sent in headers and tokens, and to the authoriser.",
        "Write `user:<id>`; an id has letters, digits, dots, bars or _ @ + = -, at most 128.",
    ),
    Rule(
        "TC201",
        "invalid-cron",
        "A cron expression cannot be parsed.",
        "It has five fields: minute, hour, day of month, month, weekday. Other dialects differ.",
        "Fix the field that the message names; try it with `tenantcron next EXPRESSION`.",
    ),
    Rule(
        "TC202",
        "never-fires",
        "The timetable has no occurrence, such as 30 February.",
        "The schedule would look healthy and never run.",
        "Correct the day or the month.",
    ),
    Rule(
        "TC203",
        "fires-rarely",
        "The timetable fires on one day a year or less often.",
        "This is often a mistake, such as 29 February for `the last day of February`.",
        "Check the day and the month; `monthly: {day: last}` is the last day of any month. If it "
        "is correct, use a preset of the policy, which is not checked for this.",
        _WARNING,
    ),
    Rule(
        "TC204",
        "both-day-fields",
        "Day of month and weekday are both restricted.",
        "Cron fires if either matches; users often expect that both must match.",
        "Keep one of the two, or use forms such as `1#1` (the first Monday).",
        _WARNING,
    ),
    Rule(
        "TC205",
        "unknown-timezone",
        "The time zone is not an IANA name.",
        "Abbreviations such as CEST are ambiguous, and offsets ignore daylight saving.",
        "Use a name such as Europe/London or UTC.",
    ),
    Rule(
        "TC206",
        "unresolved-schedule",
        "A schedule refers to a name that is not defined.",
        "It would never fire.",
        "Define it in `schedules:` or in the policy's presets, or add the cron expression: "
        "`scheduled:name:0 2 * * *`.",
    ),
    Rule(
        "TC207",
        "invalid-time",
        "A point in time cannot be parsed.",
        "Only ISO 8601 is unambiguous.",
        "Write 2026-12-01T09:00:00 (in the schedule's time zone) or 2026-12-01T09:00:00Z.",
    ),
    Rule(
        "TC208",
        "once-in-the-past",
        "The last possible occurrence is in the past.",
        "Past occurrences never fire, so this schedule will not run.",
        "Choose a time in the future, or remove the schedule.",
        _WARNING,
    ),
    Rule(
        "TC209",
        "cron-too-long",
        "The cron expression is longer than 64 characters.",
        "The column of the schedule's row has this size.",
        "Use ranges and steps, or split it into two schedules.",
    ),
    Rule(
        "TC210",
        "unused-schedule",
        "No saga uses an entry of `schedules:`.",
        "It looks like a schedule, but it never fires.",
        "Refer to it with `trigger: scheduled:<name>`, or remove it.",
        _WARNING,
    ),
    Rule(
        "TC301",
        "interval-below-floor",
        "Two occurrences are closer together than the platform allows.",
        "Tenants share the platform; the policy's minimum_interval (15m) limits the load of each.",
        "Widen the timetable. `*/14` in the minute field has a gap of 4 minutes, from 56 to 00.",
    ),
    Rule(
        "TC302",
        "too-many-schedules",
        "The tenant has more schedules than the platform allows.",
        "The cap (max_schedules_per_tenant, 20) keeps one tenant from crowding out the others.",
        "Merge schedules, or ask the platform team for a higher `max_schedules` in the table "
        "[policy.tenants.ID].",
    ),
    Rule(
        "TC303",
        "payload-too-large",
        "A payload is larger than 256 KiB as JSON.",
        "It is stored and sent with every execution.",
        "Pass a reference to the data instead of the data.",
    ),
    Rule(
        "TC304",
        "unknown-placeholder",
        "A payload has an unknown {{placeholder}}.",
        "It would reach the saga unchanged.",
        "Use fire_time, execution_id, tenant or schedule.",
    ),
    Rule(
        "TC305",
        "out-of-range",
        "A value is out of range, or contradicts another setting.",
        "The limits protect leases, slots and the history.",
        "Choose a value within the limits that the message names.",
    ),
    Rule(
        "TC306",
        "spread-too-wide",
        "The spread is not smaller than the shortest gap between two occurrences.",
        "An occurrence could start after the next one is due.",
        "Make the spread smaller than the gap.",
    ),
    Rule(
        "TC307",
        "timeout-too-long",
        "The timeout is longer than the platform allows.",
        "An attempt that hangs holds one of the cluster's slots until its timeout.",
        "Choose a shorter timeout, or split the work. The platform team can raise `max_timeout` in "
        "the [policy] table.",
    ),
    Rule(
        "TC308",
        "schedules-too-large",
        "The payloads, descriptions and targets of the tenant's schedules are larger than allowed.",
        "They are stored for every schedule, with each of its changes and with each version.",
        "Pass references instead of data. The platform team can raise `max_size_per_tenant` in the "
        "[policy] table.",
    ),
    Rule(
        "TC309",
        "too-many-schedules-of-owner",
        "An owner has more schedules in the manifest than the platform allows.",
        "The quota (schedules_per_owner, 100) keeps one user from crowding out the others.",
        "Remove schedules, or ask the platform team for a higher `schedules_per_owner` in the "
        "table [policy.tenants.ID.quotas].",
    ),
    Rule(
        "TC401",
        "invalid-url",
        "A target's URL cannot be called safely.",
        "URL parsers disagree on unusual URLs, which attackers exploit.",
        "Write https://host/path, with no user, no fragment and no spaces.",
    ),
    Rule(
        "TC402",
        "host-not-allowed",
        "A target's host is not in the policy's allowed_hosts.",
        "Many teams write manifests, but only the platform decides which hosts may be called.",
        'Add the host to `allowed_hosts` in the [policy] table: allowed_hosts = ["…"].',
    ),
    Rule(
        "TC403",
        "invalid-header",
        "A header's name or value is malformed, or the name is reserved.",
        "tenantcron sets reserved headers; a manifest that could set them could forge an identity.",
        "Rename or remove the header.",
    ),
    Rule(
        "TC404",
        "retry-beyond-retention",
        "An execution could be retried after its target has forgotten the idempotency key.",
        "The target would treat the retry as a new request and do the work twice.",
        "Use fewer attempts, a shorter timeout or backoff, or a longer idempotency_retention.",
    ),
    Rule(
        "TC405",
        "port-not-allowed",
        "A target's port is not allowed.",
        "Other ports of a host have services that do not expect such requests.",
        "Use 443 (80 for http), or add the port to `allowed_ports` in the [policy] table: "
        "allowed_ports = [443, 8443].",
    ),
    Rule(
        "TC406",
        "address-not-allowed",
        "A target's address is private, local or reserved.",
        "Such addresses lead into the platform's own network, including cloud metadata services.",
        "Call a public address, or add the network to the [policy] table: "
        'allowed_networks = ["10.20.0.0/16"].',
    ),
    Rule(
        "TC407",
        "secret-in-manifest",
        "A header, a query, the auth section or a payload contains what looks like a secret.",
        "Manifests are stored in Git, in the database and in plans, where too many people can "
        "read them.",
        "Refer to it with `auth: {bearer: {secret: {env: NAME}}}`, or use `auth: "
        "execution_token`, and let handlers read secrets where they run. Replace the exposed "
        "secret.",
    ),
    Rule(
        "TC408",
        "secret-not-allowed",
        "A target is authenticated with a secret that this tenant may not use.",
        "A manifest that may name any secret could send requests with those of others.",
        "Add the reference to `allowed_secrets` in the [policy] table: "
        'allowed_secrets = ["env:…"].',
    ),
    Rule(
        "TC409",
        "audience-not-allowed",
        "A target requests a token for a service other than the one that it calls.",
        "The called service receives the token, and could call the other service as the tenant.",
        "Remove `audience`: the token is then for the origin of the URL. Or add it to "
        '`allowed_audiences` in the [policy] table: allowed_audiences = ["…"].',
    ),
    Rule(
        "TC410",
        "unknown-target-kind",
        "A target's kind is neither built in nor in the policy's target_kinds.",
        "No scheduler of the platform could run it, so its executions would wait for ever.",
        "Fix the kind, or add it to `target_kinds` in the [policy] table: "
        'target_kinds = ["…"], and install its plug-in where schedulers run.',
    ),
    Rule(
        "TC411",
        "target-options-not-checked",
        "The options of a target were not checked: its plug-in is not installed here.",
        "Mistakes in them appear only when the target runs.",
        "Install the plug-in where `validate` runs.",
        _WARNING,
    ),
    Rule(
        "TC412",
        "celery-task-not-allowed",
        "The policy does not allow a tenant to send a Celery task to this queue.",
        "A task runs with the rights of its worker, so the platform decides which tenant may start "
        "which task.",
        "Fix the task or the queue, or add them to `allowed_celery_tasks` in the [policy] table: "
        'allowed_celery_tasks = ["queue/task"].',
    ),
    Rule(
        "TC413",
        "temporal-workflow-not-allowed",
        "The policy does not allow a tenant to start a workflow in this namespace or task queue.",
        "A workflow runs with the rights of its workers, so the platform decides which tenant may "
        "start which workflow.",
        "Fix the namespace, the task queue or the workflow, or add them to "
        "`allowed_temporal_workflows` in the [policy] table: "
        'allowed_temporal_workflows = ["namespace/task_queue/workflow"].',
    ),
    Rule(
        "TC501",
        "tenant-declared-twice",
        "Two manifests are for the same tenant.",
        "Each would delete the schedules of the other.",
        "Merge them into one manifest.",
    ),
)

RULES = {rule.code: rule for rule in _ALL}
