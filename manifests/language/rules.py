"""Every rule that a manifest can break: its code, its name, and what `explain` says of it.

The families: TC0xx the document, TC1xx its structure, TC2xx timetables, TC3xx guardrails,
TC4xx targets, TC5xx across files. TC6xx, why an apply is refused, stands in
`reconciler/refusals.py`, TC7xx, what the API answers, in `service/responses/problem_types.py`.
A code never changes its meaning; a retired one is not reused.
"""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """Errors stop a commit; warnings do so only with `--strict`."""

    ERROR = "error"
    WARNING = "warning"


class Rule(NamedTuple):
    """One rule: what it says, why it exists, and how to satisfy it."""

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
        "Every other encoding is a guess, and a wrong guess changes names silently.",
        "Save the file as UTF-8. A byte order mark at its start is fine.",
    ),
    Rule(
        "TC002",
        "too-large",
        "The file is over 1 MiB, or holds more than 20,000 values.",
        "A hook that runs on every commit must stay quick and small whatever it is given.",
        "Move generated data out of the manifest; split scripts into files of their own.",
    ),
    Rule(
        "TC003",
        "syntax-error",
        "The file is not valid YAML (or JSON, if it is called .json).",
        "Nothing else can be checked before the text can be read.",
        "Mend the text at the place shown; the cause often sits on the line before.",
    ),
    Rule(
        "TC004",
        "duplicate-key",
        "A mapping has the same key twice.",
        "Most loaders keep the last one without a word, so half of what was written is lost.",
        "Delete or rename one of the two.",
    ),
    Rule(
        "TC005",
        "too-deep",
        "The document is nested more than 64 levels deep.",
        "Such depth is never a schedule; it is a mistake or an attack on the reader.",
        "Flatten the data, or keep it as a string.",
    ),
    Rule(
        "TC006",
        "several-documents",
        "The file holds more than one YAML document.",
        "One file is one tenant's manifest; a second document would be ignored silently.",
        "Split the file at the `---` line.",
    ),
    Rule(
        "TC007",
        "tag-not-allowed",
        "A YAML tag or directive is used.",
        "Tags make a loader build other things than data, and loaders disagree on them.",
        "Remove the tag; quote the value if it must be a string.",
    ),
    Rule(
        "TC008",
        "alias-expansion",
        "Aliases or merge keys expand too far, name an unknown anchor, or contain themselves.",
        "A few hundred bytes of nested aliases can grow to gigabytes.",
        "Write the values out, or use a named entry under `schedules:`.",
    ),
    Rule(
        "TC009",
        "invalid-character",
        "A string holds a control character, a NUL or half of a surrogate pair.",
        "The database refuses such text, long after the commit.",
        "Remove the character; it is often left behind by copy and paste.",
    ),
    Rule(
        "TC010",
        "empty-document",
        "The file holds nothing.",
        "An empty manifest would delete every schedule of its tenant.",
        "Write `sagas: []` if that is what is meant, or delete the file.",
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
        "JSON cannot hold it, and other readers would change it silently.",
        "Write it as a string.",
    ),
    Rule(
        "TC013",
        "ambiguous-scalar",
        "An unquoted value means one thing here and another in older YAML readers.",
        "`no`, `010` or `1_000` are a boolean and other numbers under YAML 1.1.",
        "Put the value in quotes, or write true, false or the plain number.",
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
        "A key that this section does not have.",
        "A misspelt setting that is ignored looks as if it were in force.",
        "Correct or remove the key; the message lists the keys of the section.",
    ),
    Rule(
        "TC102",
        "missing-key",
        "A key that this section needs is not there.",
        "Without it there is nothing sensible to do, and guessing would be worse.",
        "Add the key that the message names.",
    ),
    Rule(
        "TC103",
        "wrong-type",
        "A value is of another type than its key takes.",
        "YAML turns unquoted text into numbers and booleans; what was meant is unclear.",
        "Write a value of the type that the message names; quote strings that look like numbers.",
    ),
    Rule(
        "TC104",
        "null-section",
        "A key has nothing behind it.",
        "`sagas:` with its entries commented out must never mean `delete all schedules`.",
        "Write the entries, write `[]` or `{}` if none are meant, or remove the key.",
    ),
    Rule(
        "TC105",
        "misspelt-section",
        "A key that is not ours but nearly is.",
        "Other tools' sections are left alone, so a typo in ours would go unnoticed.",
        "Use the suggested key, or a name that is not so close to it.",
    ),
    Rule(
        "TC106",
        "invalid-value",
        "A value is of the right type but not one that its key allows.",
        "It would be refused later, or silently replaced by a default.",
        "Use one of the values or the form that the message names.",
    ),
    Rule(
        "TC107",
        "invalid-name",
        "A name has characters or a length that names may not have.",
        "Names become database identifiers, headers and parts of URLs.",
        "Begin with a-z, go on with a-z, 0-9, _ or -; tenants at most 48 characters, others 128.",
    ),
    Rule(
        "TC108",
        "reserved-tenant",
        "The tenant id belongs to Postgres or to tenantcron itself.",
        "Each tenant has a schema of its own; these names could be taken for others.",
        "Choose another id.",
    ),
    Rule(
        "TC109",
        "duplicate-saga",
        "Two sagas have the same name.",
        "A saga's name finds its handler; with two of them nobody can tell which one ran.",
        "Rename one of them, or merge the two.",
    ),
    Rule(
        "TC110",
        "duplicate-schedule",
        "Two sagas of one tenant claim the same schedule name.",
        "The name is the schedule's identity: its pause, its history and its next run hang on it.",
        "Give one of them a name of its own: `scheduled: {name: …, preset: …}`.",
    ),
    Rule(
        "TC111",
        "not-one-timetable",
        "A schedule has no timetable, or more than one.",
        "Without one it never fires; with two nobody knows which one counts.",
        "Keep exactly one of cron, every, daily, weekly, monthly, once, preset.",
    ),
    Rule(
        "TC112",
        "unknown-trigger",
        "A trigger is of no known kind.",
        "A typo in `scheduled:` would make a schedule that never fires.",
        "Use scheduled:, api:, webhook: or event:.",
    ),
    Rule(
        "TC113",
        "tenant-missing",
        "The manifest does not say whose it is.",
        "Applied to the wrong tenant it would replace that tenant's schedules.",
        "Add `tenant:`, pass --tenant, or name the file after the tenant.",
    ),
    Rule(
        "TC114",
        "tenant-mismatch",
        "The manifest's tenant is not the one asked for.",
        "Applied to the wrong tenant it would replace that tenant's schedules.",
        "Correct `tenant:` or the --tenant option.",
    ),
    Rule(
        "TC115",
        "misplaced-setting",
        "A setting of a schedule stands beside the trigger instead of inside it.",
        "A saga's other keys belong to other tools and are left alone: it has no effect there.",
        "Move it below `scheduled:`, where the timetable is.",
        _WARNING,
    ),
    Rule(
        "TC116",
        "invalid-owner",
        "An owner is not written as `user:` and an id.",
        "It goes into headers and tokens, and to whoever decides whether they may still do this.",
        "Write `user:<id>`; ids have letters, digits, dots, bars or _ @ + = -, at most 128.",
    ),
    Rule(
        "TC201",
        "invalid-cron",
        "A cron expression cannot be read.",
        "Five fields: minute, hour, day of month, month, weekday. Dialects differ beyond that.",
        "Mend the field that the message names; `tenantcron next EXPRESSION` tries it out.",
    ),
    Rule(
        "TC202",
        "never-fires",
        "The timetable has no occurrence at all, such as 30 February.",
        "It would look healthy and never run.",
        "Correct the day or the month.",
    ),
    Rule(
        "TC203",
        "fires-rarely",
        "The timetable fires less than once a year.",
        "Often a slip, such as 29 February for `the last day of February`.",
        "Check the day; `monthly: {day: last}` is the last day of any month.",
        _WARNING,
    ),
    Rule(
        "TC204",
        "both-day-fields",
        "Day of month and weekday are both restricted.",
        "Cron fires when either matches; people often mean that both must.",
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
        "A schedule is referred to by a name that nothing defines.",
        "It would never fire.",
        "Define it under `schedules:` or among the policy's presets, or write the cron behind it: "
        "`scheduled:name:0 2 * * *`.",
    ),
    Rule(
        "TC207",
        "invalid-time",
        "A point in time cannot be read.",
        "Only ISO 8601 is the same everywhere.",
        "Write 2026-12-01T09:00:00 (in the schedule's time zone) or 2026-12-01T09:00:00Z.",
    ),
    Rule(
        "TC208",
        "once-in-the-past",
        "The last possible occurrence lies in the past.",
        "Nothing is ever fired back: this schedule will not run.",
        "Move the time ahead, or remove the schedule.",
        _WARNING,
    ),
    Rule(
        "TC209",
        "cron-too-long",
        "The cron expression is longer than 64 characters.",
        "That is what the schedule's row holds.",
        "Use ranges and steps, or split it into two schedules.",
    ),
    Rule(
        "TC210",
        "unused-schedule",
        "An entry under `schedules:` starts no saga.",
        "It never fires, although it looks as if it did.",
        "Refer to it with `trigger: scheduled:<name>`, or remove it.",
        _WARNING,
    ),
    Rule(
        "TC301",
        "interval-below-floor",
        "Two occurrences are closer to each other than the platform allows.",
        "Schedules share the platform; the policy's minimum_interval (15m) keeps it fair to all.",
        "Widen the timetable. `*/14` in the minute field has a gap of 4 minutes, from 56 to 00.",
    ),
    Rule(
        "TC302",
        "too-many-schedules",
        "The tenant has more schedules than the platform allows.",
        "The cap (max_schedules_per_tenant, 20) keeps one tenant from crowding out the others.",
        "Merge schedules, or ask the platform team to raise the cap.",
    ),
    Rule(
        "TC303",
        "payload-too-large",
        "A payload is over 256 KiB as JSON.",
        "It is stored and sent with every execution.",
        "Pass a reference to the data instead of the data.",
    ),
    Rule(
        "TC304",
        "unknown-placeholder",
        "A payload has a {{placeholder}} that nothing fills.",
        "It would reach the saga as it stands.",
        "Use fire_time, execution_id, tenant or schedule.",
    ),
    Rule(
        "TC305",
        "out-of-range",
        "A value is outside of its limits, or contradicts another setting.",
        "The message names the limits; each protects a lease, a slot or the history.",
        "Choose a value inside the limits.",
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
        "All of it is stored for every schedule, with each change of it and with each version.",
        "Pass references instead of data. The platform team can raise `max_size_per_tenant` in the "
        "[policy] table.",
    ),
    Rule(
        "TC401",
        "invalid-url",
        "A target's URL cannot be called safely.",
        "Readers of URLs disagree on odd ones, and attackers live from that.",
        "Write https://host/path, with no user, no fragment and no blanks.",
    ),
    Rule(
        "TC402",
        "host-not-allowed",
        "A target's host is not among the policy's allowed_hosts.",
        "Manifests come from many hands; only the platform decides what may be called.",
        'Add the host to `allowed_hosts` in the [policy] table: allowed_hosts = ["…"].',
    ),
    Rule(
        "TC403",
        "invalid-header",
        "A header's name or value is malformed, or the name is reserved.",
        "tenantcron sets these itself; a manifest that could set them could forge an identity.",
        "Rename or remove the header.",
    ),
    Rule(
        "TC404",
        "retry-beyond-retention",
        "An execution could still be retried after its target forgot the idempotency key.",
        "The retry would then be taken for a new request: the work would be done twice.",
        "Fewer attempts, a shorter timeout or backoff; or a longer idempotency_retention.",
    ),
    Rule(
        "TC405",
        "port-not-allowed",
        "A target's port is not among those that may be called.",
        "Beside its web server a host has other services, which do not expect such requests.",
        "Use 443 (80 for http), or add the port to `allowed_ports` in the [policy] table: "
        "allowed_ports = [443, 8443].",
    ),
    Rule(
        "TC406",
        "address-not-allowed",
        "A target's address is private, local or reserved.",
        "Such addresses lead into the platform's own network, where the metadata of clouds is, "
        "too.",
        "Call a public address, or name the network in the [policy] table: "
        'allowed_networks = ["10.20.0.0/16"].',
    ),
    Rule(
        "TC407",
        "secret-in-manifest",
        "A header, a query, the auth section or a payload holds what looks like a secret.",
        "Manifests are kept in Git, in the database and in plans: too many can read them.",
        "Let requests be signed: `auth: {hmac: {secret: {env: NAME}}}`, or `auth: "
        "execution_token`; let handlers read secrets where they run. And replace it, for it has "
        "been seen.",
    ),
    Rule(
        "TC408",
        "secret-not-allowed",
        "A target is signed with a secret that this tenant may not use.",
        "Whoever may name any secret can have the scheduler sign with everybody's.",
        "Add the reference to `allowed_secrets` in the [policy] table: "
        'allowed_secrets = ["env:…"].',
    ),
    Rule(
        "TC409",
        "audience-not-allowed",
        "A target asks for a token for another service than the one that it calls.",
        "The called service receives the token, and could call the other one as the tenant.",
        "Remove `audience`: the token is then for the origin of the URL. Or add it to "
        '`allowed_audiences` in the [policy] table: allowed_audiences = ["…"].',
    ),
    Rule(
        "TC501",
        "tenant-declared-twice",
        "Two manifests are for the same tenant.",
        "Each would delete what the other declares.",
        "Merge them into one manifest.",
    ),
)

RULES = {rule.code: rule for rule in _ALL}
