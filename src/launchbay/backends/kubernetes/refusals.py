"""What a cluster means when it makes no object: one sentence, and whether trying later may help.

The same words come from `kubectl create` and from the events of a Job that gets no pod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from launchbay.backends.kubernetes.calls import SILENT
from launchbay.backends.kubernetes.facts import parse_quantity


@dataclass(frozen=True)
class Refused:
    """What the cluster meant when it made no object."""

    reason: str
    transient: bool = False
    """Whether trying later may help."""


PREFIX = re.compile(
    r"^(?:Error from server(?: \((?P<word>\w+)\))?: |error: |Error creating: "
    r"|error when creating \"[^\"]*\": )"
)
NAMED = re.compile(r'\b(?P<kind>[A-Za-z]+)(?:\.[a-z0-9.]+)? "(?P<name>[^"]+)" (?:is |already )')
REFUSED = re.compile(r"Error from server|error: |The |Unable to connect|couldn't ")
"""How a line begins that is about an object, or about all."""
BEING_DELETED = "object is being deleted"
QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<requested>\S+), "
    r"used: (?P<used>\S+), limited: (?P<limited>\S+)"
)
UNSAID = re.compile(r"failed quota: (?P<name>[^:]+): must specify (?P<what>.+)")
RANGE = re.compile(
    r"(?P<kind>maximum|minimum) (?P<what>\S+) usage per (?P<of>\w+) is (?P<bound>[^,]+), but "
    r"(?P<field>limit|request|no limit|no request|[\w ]+?)(?: is (?P<asked>[^,\]]+))?(?:[.,\]]|$)"
)
RATIO = re.compile(
    r"(?P<what>\S+) max limit to request ratio per \w+ is (?P<bound>[^,]+), but provided ratio is"
)
WEBHOOK = re.compile(r'admission webhook "(?P<who>[^"]+)" denied the request(?::\s*(?P<why>.*))?')
POLICY = re.compile(
    r"ValidatingAdmissionPolicy '(?P<who>[^']+)'.*? denied request(?:: (?P<why>.*))?"
)
POD_SECURITY = re.compile(r'violates PodSecurity "(?P<who>[^"]+)": (?P<why>.*)')
RIGHTS = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<what>[^"]+)" in API group "[^"]*"'
    r'(?: in the namespace "(?P<where>[^"]+)")?'
)
INVALID = re.compile(
    r" is invalid: (?P<field>[^:\s]+): (?P<word>[A-Z][\w ]+?)(?:: (?P<why>.*))?$", re.DOTALL
)
DECODED = re.compile(r"cannot be handled as an? \w+: (?P<why>.*)")
PLAIN: tuple[tuple[str, str], ...] = (
    (
        r"no PriorityClass with name (?P<what>\S+) was found",
        "the cluster has no priority class `{what}`; correct `priority_class:`",
    ),
    (
        r'serviceaccount "?(?P<what>[^" ]+)"? not found',
        "the namespace has no service account `{what}`; correct `service_account:`",
    ),
    (
        r'namespaces? "?(?P<what>[^" ]+)"? not found',
        "the cluster has no namespace `{what}`; correct the target's `namespace:`",
    ),
    (
        r"in namespace (?P<what>\S+) because it is being terminated",
        "the namespace `{what}` is being removed; ask whoever gave it to you",
    ),
    (
        r"Request entity too large|may not be more than \d+ bytes|etcdserver: request is too large",
        (
            "it is larger than the cluster takes; shorten its parameters and variables, or leave "
            "files out of the code with `.bayignore`"
        ),
    ),
    (
        r'no matches for kind "(?P<what>\w+)"',
        (
            "the cluster knows no `{what}` of this version; it is older than launchbay speaks to, "
            "or correct `override:`"
        ),
    ),
)
"""What is wrong, and the sentence for it."""
FIELDS: tuple[tuple[str, str], ...] = (
    (r"\bimage\b", "image"),
    (r"\bimagePullSecrets\b", "image_pull_secrets"),
    (r"\bresources\b.*\bcpu\b", "cpus"),
    (r"\bresources\b.*\bmemory\b", "memory"),
    (r"\bresources\b.*ephemeral-storage", "disk"),
    (r"\bresources\b", "extra"),
    (r"\btolerations\b", "tolerations"),
    (r"\bnodeSelector\b", "node_selector"),
    (r"\baffinity\b", "hostname_whitelist"),
    (r"\bvolume(?:s|Mounts)\b", "volumes"),
    (r"\bserviceAccountName\b", "service_account"),
    (r"\bpriorityClassName\b", "priority_class"),
    (r"\binitContainers\b", "server"),
    (r"\bttlSecondsAfterFinished\b", "ttl"),
    (r"^spec\.activeDeadlineSeconds", "deadline"),
    (r"\bactiveDeadlineSeconds\b", "time"),
)
"""Which key of ours a field of a Job comes from; the first that fits."""


def explain_refusal(line: str) -> Refused:
    """What one line of `kubectl create`, or of a `FailedCreate` event, means."""
    text = _bare(line)
    for explain in (_quota, _range, _denied, _rights):
        if found := explain(text):
            return found
    if "failed calling webhook" in text:
        who = re.search(r'webhook "([^"]+)"', text)
        return Refused(
            f"the cluster has to ask `{who[1] if who else 'a webhook'}` first, which does not "
            "answer; try again later, or ask whoever runs the cluster",
            transient=True,
        )
    if BEING_DELETED in text:
        return Refused(
            "one of the same name is being removed; try again in a moment", transient=True
        )
    for pattern, sentence in PLAIN:
        if match := re.search(pattern, text):
            return Refused(sentence.format(**match.groupdict()))
    if found := _invalid(text):
        return found
    if not text or SILENT.search(line):
        return Refused("the cluster did not answer; it is tried again later", transient=True)
    return Refused(f"the cluster refused it: {text}")


def refused_lines(stderr: str) -> list[str]:
    """The lines of `kubectl create` that say why an object was not made; warnings are none."""
    lines = (line.strip() for line in stderr.splitlines())
    return [line for line in lines if REFUSED.match(line) and not is_there(line)]


def is_there(line: str) -> bool:
    """Whether a line says that the object exists, which is no refusal."""
    return "(AlreadyExists)" in line and BEING_DELETED not in line


def which_object(line: str) -> str:
    """The object that a line of `kubectl create` is about, `job/NAME`; empty where none is named.

    >>> which_object('Error from server (AlreadyExists): jobs.batch "a-x1y2z" already exists')
    'job/a-x1y2z'
    """
    match = NAMED.search(_bare(line))
    if not match:
        return ""
    kind = match["kind"].lower()
    # The names of all kinds that are made here end in `s` only where there are several.
    return f"{kind.removesuffix('s')}/{match['name']}"


def noun_of(resource: str) -> tuple[str, str]:
    """A resource of the cluster in words, and the key that asks for it, where there is one.

    >>> noun_of("requests.nvidia.com/gpu"), noun_of("limits.memory"), noun_of("count/jobs.batch")
    (('GPUs', 'gpus'), ('memory', 'memory'), ('Jobs', ''))
    """
    name = re.sub(r"^(?:requests\.|limits\.|count/)", "", resource).removesuffix(".batch")
    known = {
        "cpu": ("CPUs", "cpus"),
        "memory": ("memory", "memory"),
        "ephemeral-storage": ("scratch disk", "disk"),
        "pods": ("pods", ""),
        "jobs": ("Jobs", ""),
        "configmaps": ("ConfigMaps", ""),
        "secrets": ("Secrets", ""),
        "persistentvolumeclaims": ("volume claims", ""),
        "storage": ("storage of claims", ""),
    }
    if name in known:
        return known[name]
    if name.rpartition("/")[2] == "gpu":
        return "GPUs", "gpus"
    if name.startswith(("nvidia.com/", "amd.com/")):
        return f"GPUs of `{name}`", "special_gpu"
    return f"`{name}`", "extra" if "/" in name else ""


def amount(text: str) -> float:
    """The number that a quantity of the cluster is; infinite for what is none.

    >>> amount("500m"), amount("1Gi"), amount("2")
    (0.5, 1073741824.0, 2.0)
    """
    try:
        return float(parse_quantity(text))
    except ValueError:
        return float("inf")


def _bare(line: str) -> str:
    text = line.strip()
    while match := PREFIX.match(text):
        text = text[match.end() :]
    return text.strip()


def _quota(text: str) -> Refused | None:
    if match := UNSAID.search(text):
        keys = dict.fromkeys(noun_of(one)[1] for one in re.findall(r"[a-z][\w./-]+", match["what"]))
        fix = " and ".join(f"`{key}:`" for key in keys if key) or "the resources that it wants"
        return Refused(f"the namespace's quota `{match['name']}` wants it said; set {fix}")
    match = QUOTA.search(text)
    if not match:
        return None
    asked, used, most = (
        dict(pair.partition("=")[::2] for pair in match[key].split(","))
        for key in ("requested", "used", "limited")
    )
    # What alone is too much is what stands in the way for good.
    never = [one for one in asked if amount(asked[one]) > amount(most.get(one, ""))]
    what = next(iter(never or asked))
    noun, key = noun_of(what)
    quota = f"the namespace's quota `{match['name']}`"
    less = f"ask for less with `{key}:`" if key else "ask for more"
    if never:
        return Refused(
            f"it asks for {noun}: {asked[what]}, and {quota} gives {most[what]} in all, so it will "
            f"not start; {less}"
        )
    full = f"{quota} is used up, {noun}: {used.get(what)} of {most.get(what)} are in use"
    if what.startswith("count/") or what in {"configmaps", "secrets"}:
        return Refused(f"{full}; `bay rm` removes what has ended, or ask for more", transient=True)
    wants = f" and it asks for {asked[what]}"
    tail = f", or {less}" if key else ""
    return Refused(f"{full}{wants}; it starts by itself when others end{tail}", transient=True)


def _range(text: str) -> Refused | None:
    if match := RATIO.search(text):
        return Refused(
            f"the namespace lets limits be {match['bound']} times the request at most; set "
            "`limit_ratio:` lower"
        )
    match = RANGE.search(text)
    if not match:
        return None
    noun, key = noun_of(match["what"])
    word, other = ("most", "less") if match["kind"] == "maximum" else ("least", "more")
    asked = f"and it asks for {match['asked']}" if match["asked"] else "and it names none"
    fix = f"ask for {other} with `{key}:`" if key else f"ask for {other}"
    return Refused(
        f"the namespace gives one {match['of'].lower()} {noun} of {match['bound']} at the {word}, "
        f"{asked}; {fix}"
    )


def _denied(text: str) -> Refused | None:
    for pattern in (WEBHOOK, POLICY, POD_SECURITY):
        if match := pattern.search(text):
            why = (match["why"] or "").strip() or "without saying why"
            how = "change what it asks for, or ask whoever runs the cluster"
            if pattern is POD_SECURITY:
                how = "add what is missing with `override:`"
            return Refused(f"a rule of the cluster, `{match['who']}`, denies it: {why}; {how}")
    return None


def _rights(text: str) -> Refused | None:
    match = RIGHTS.search(text)
    if not match:
        return None
    where = f"in the namespace `{match['where']}`" if match["where"] else "on this cluster"
    return Refused(
        f"you may not {match['verb']} {match['what']} {where}; ask whoever gave you the namespace, "
        "or correct the target's `namespace:`"
    )


def _invalid(text: str) -> Refused | None:
    if match := DECODED.search(text):
        return Refused(
            f"the cluster cannot read it: {match['why'].strip()}; correct `override:`, or what it "
            "names"
        )
    match = INVALID.search(text)
    if not match:
        return None
    field, why = match["field"], " ".join(f"{match['word']}: {match['why'] or ''}".split())
    about = f"{field} {why}"
    key = next((key for pattern, key in FIELDS if re.search(pattern, about)), "override")
    return Refused(f"the cluster takes no such `{field}`: {why.rstrip(': ')}; correct `{key}:`")
