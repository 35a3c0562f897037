"""What a Slurm cluster is: one script that looks round, and what its answers mean.

Each section of an answer stands behind a line `@@bay NAME`; a program that is missing, refuses or
hangs leaves its section empty, and what it would have said is then unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from launchbay.backends.depot_programs import FIND_PROGRAMS
from launchbay.backends.slurm.words import parse_minutes
from launchbay.core.backend import Room

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MARK = "@@bay "
PREAMBLE = r"""
LC_ALL=C; export LC_ALL
unset SINFO_PARTITION SINFO_FORMAT SINFO_SORT SQUEUE_PARTITION SQUEUE_STATES SQUEUE_USERS
unset SQUEUE_ACCOUNT SQUEUE_QOS SQUEUE_ARRAY SQUEUE_FORMAT SQUEUE_SORT SLURM_TIME_FORMAT
section() { printf '\n@@bay %s\n' "$1"; }
guarded() {
    if command -v timeout >/dev/null 2>&1; then timeout 10 "$@"; else "$@"; fi 2>/dev/null
}
"""
ASSOCIATIONS = (
    "Cluster,Account,User,Partition,DefaultQOS,QOS,MaxJobs,MaxSubmit,GrpSubmit,ParentName"
)
QOS = "Name,MaxWall,MaxJobsPU,MaxSubmitPU,MaxSubmitPA,GrpSubmit,MaxTRESPU,MaxTRES,GrpTRES,Flags"
NODES = "%R|%D|%c|%m|%d|%T|%N|%G|%f"

SURVEY_SCRIPT = (
    PREAMBLE
    + rf"""
me=$(id -un)
section user; id -un; id -u; printf '%s\n' "$HOME"
section version; guarded sinfo --version
section config
guarded scontrol show config |
    grep -E '^(SLURM_VERSION|ClusterName|Max(ArraySize|JobCount)|AccountingStorageEnforce|Preempt)'
section partitions; guarded scontrol show partition -o
section nodes; guarded sinfo -h -e -o '{NODES}'
section accounting; guarded sacct -n -X -S now -o JobID >/dev/null && echo yes
section associations
guarded sacctmgr -n -P show assoc where user="$me" format={ASSOCIATIONS}
section accounts; guarded sacctmgr -n -P show assoc where user= format={ASSOCIATIONS}
section default; guarded sacctmgr -n -P show user where name="$me" format=DefaultAccount
section qos; guarded sacctmgr -n -P show qos format={QOS}
section programs
{FIND_PROGRAMS}
section folders
for folder in "$SCRATCH" "$PSCRATCH" "$WORK" "$WORKDIR" "$PROJECT" "/scratch/$me" \
    "/scratch/users/$me" "/work/$me" "/data/$me" "$HOME"; do
    if [ -n "$folder" ] && [ -d "$folder" ] && [ -w "$folder" ]; then
        printf '%s|' "$folder"
        guarded df -Pk "$folder" | awk 'NR == 2 {{ printf "%s", $4 }}'
        echo
    fi
done
section end
"""
)
"""For `sh`, in one remote command; changes nothing."""

WHY_SCRIPT = """
command -v sinfo >/dev/null 2>&1 || { echo 'there is no sinfo' >&2; exit 127; }
if command -v timeout >/dev/null 2>&1; then set -- timeout 10; fi
LC_ALL=C "$@" sinfo -h
"""
"""For `sh`: what Slurm says for itself where a survey found nothing."""

CAPACITY_SCRIPT = (
    PREAMBLE
    + r"""
section nodes
guarded sinfo -h -N -O 'PartitionName:|,StateLong:|,CPUsState:|,Gres:|,GresUsed:|' | sort | uniq -c
section jobs
guarded squeue -h -r -t PD,R -O 'Partition:|,UserName:|,StateCompact:|,tres-alloc:|' |
    sort | uniq -c
section end
"""
)
"""For `sh`, in one remote command; what is alike is counted there."""


def split_sections(text: str) -> dict[str, list[str]]:
    """The lines of each section; what stands before the first is the site's own chatter."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(MARK):
            lines = sections.setdefault(line.removeprefix(MARK).strip(), [])
        elif line.strip():
            lines.append(line.strip())
    return sections


def parse_survey(text: str) -> dict[str, Any]:
    """What the cluster is, as plain data: the `details` of its facts; unknown is None or empty.

    Keys: version, cluster, user, uid, home, folders, max_array, max_jobs, accounting, enforced,
    partitions, accounts, qos, default_account, submit_limit; programs that copy data, where seen.
    """
    sections = defaultdict(list, split_sections(text))
    config = _config(sections["config"])
    user, uid, home = (*sections["user"], "", "", "")[:3]
    accounts = _accounts(sections["associations"], sections["accounts"])
    details: dict[str, Any] = {
        "version": _version(sections["version"], config),
        "cluster": config.get("ClusterName", ""),
        "user": user,
        "uid": uid,
        "home": home,
        "folders": _folders(sections["folders"]),
        "max_array": _number(config.get("MaxArraySize", "")),
        "max_jobs": _number(config.get("MaxJobCount", "")),
        "accounting": "yes" in sections["accounting"],
        "enforced": [
            word for word in config.get("AccountingStorageEnforce", "").split(",") if word
        ],
        "preempt_mode": config.get("PreemptMode", ""),
        "partitions": _partitions(sections["partitions"], sections["nodes"]),
        "accounts": accounts,
        "default_account": (*sections["default"], "")[0].strip("|"),
        "qos": _qos(sections["qos"], {name for entry in accounts for name in entry["qos"]}),
    }
    if "programs" in sections:
        details["programs"] = " ".join(sections["programs"]).split()
    return {**details, "submit_limit": submit_limit(details)}


def submit_limit(
    details: Mapping[str, Any], *, account: str = "", qos: str = "", partition: str = ""
) -> int | None:
    """How many jobs may wait or run at once: the smallest limit that applies, None for none.

    Args:
        details: as `parse_survey` gives them.
        account: whose limits; unset is the default one.
        qos: whose limits; unset is the account's default, else `normal`.
        partition: whose QoS limits as well.
    """
    enforced = set(details.get("enforced", ()))
    if enforced and not enforced & {"limits", "safe", "all", "qos"}:
        return None
    name = account or details.get("default_account", "")
    mine = [entry for entry in details.get("accounts", ()) if not name or entry["name"] == name]
    bounds = [entry[key] for entry in mine for key in ("max_submit", "group_submit")]
    chosen = {
        qos or next((entry["default_qos"] for entry in mine if entry["default_qos"]), "normal")
    }
    chosen |= {
        entry["qos"] for entry in details.get("partitions", ()) if entry["name"] == partition
    }
    bounds += [entry["max_submit"] for entry in details.get("qos", ()) if entry["name"] in chosen]
    return min((bound for bound in bounds if bound is not None), default=None)


def _config(lines: Iterable[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _version(lines: Sequence[str], config: Mapping[str, str]) -> str:
    match = re.search(r"\d+\.\d+[\w.-]*", " ".join(lines))
    return match[0] if match else config.get("SLURM_VERSION", "")


def _number(text: str) -> int | None:
    match = re.match(r"\d+", text.strip())
    return int(match[0]) if match else None


def _folders(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Where files may be written, each once, with what is free there."""
    found: dict[str, int | None] = {}
    for line in lines:
        path, _, free = line.rpartition("|")
        kib = _number(free)
        found.setdefault(path.rstrip("/") or path, None if kib is None else kib // 1024)
    return [{"path": path, "free_mib": free} for path, free in found.items()]


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name and name not in {"ALL", "(null)", "N/A"}]


def _partitions(lines: Iterable[str], nodes: Iterable[str]) -> list[dict[str, Any]]:
    kinds = _kinds(nodes)
    partitions = []
    for line in lines:
        fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line))
        name = fields.get("PartitionName", "")
        if name:
            partitions.append(_partition(name, fields, kinds.get(name, [])))
    return partitions


def _partition(
    name: str, fields: Mapping[str, str], kinds: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    gpus: dict[str, int] = {}
    for kind in kinds:
        for gpu, count in kind["gpus"].items():
            gpus[gpu] = max(gpus.get(gpu, 0), count)
    cpus = _capped(kinds, "cpus", _number(fields.get("MaxCPUsPerNode", "")))
    memory = _capped(kinds, "memory_mib", _number(fields.get("MaxMemPerNode", "")))
    return {
        "name": name,
        "default": fields.get("Default") == "YES",
        "state": fields.get("State", ""),
        "max_minutes": parse_minutes(fields.get("MaxTime", "")),
        "default_minutes": parse_minutes(fields.get("DefaultTime", "")),
        "nodes": _number(fields.get("TotalNodes", "")),
        "max_nodes": _number(fields.get("MaxNodes", "")),
        "cpus_per_node": cpus,
        "memory_mib_per_node": memory,
        "gpus": gpus,
        "features": sorted({word for kind in kinds for word in kind["features"]}),
        "kinds": [dict(kind) for kind in kinds],
        "qos": _names(fields.get("QoS", ""))[0] if _names(fields.get("QoS", "")) else "",
        "accounts_allowed": _names(fields.get("AllowAccounts", "")),
        "accounts_denied": _names(fields.get("DenyAccounts", "")),
        "qos_allowed": _names(fields.get("AllowQos", "")),
        "preempt_mode": fields.get("PreemptMode", ""),
    }


def _capped(kinds: Sequence[Mapping[str, Any]], key: str, cap: int | None) -> int | None:
    there = [kind[key] for kind in kinds if kind[key]]
    bounds = [bound for bound in (max(there, default=None), cap) if bound]
    return min(bounds, default=None)


def _kinds(lines: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """By partition, the kinds of nodes it has; nodes that differ in state only are one kind."""
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    names: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in lines:
        fields = line.split("|", 8)
        if len(fields) == len(NODES.split("|")):
            name, count, cpus, memory, disk, _, hosts, gres, features = fields
            like = (name, cpus, memory, disk, gres, features)
            counts[like] += _number(count) or 0
            names[like].append(hosts)
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for key, number in counts.items():
        name, cpus, memory, disk, gres, features = key
        kinds[name].append(
            {
                "count": number,
                "names": ",".join(names[key]),
                "cpus": _number(cpus),
                "memory_mib": _number(memory),
                "disk_mib": _number(disk),
                "gpus": parse_gres(gres),
                "features": _names(features),
            }
        )
    return kinds


def parse_gres(text: str) -> dict[str, int]:
    """GPUs of one node by type; a type that the site does not name is empty.

    >>> parse_gres("gpu:a100:4(S:0-1),gpu:h100:2,lustre:1")
    {'a100': 4, 'h100': 2}
    """
    gpus: dict[str, int] = {}
    # What stands in brackets holds commas of its own: `gpu:a100:2(IDX:0,2)`.
    for piece in re.sub(r"\([^)]*\)", "", text).split(","):
        match = re.fullmatch(r"(?:gres[:/])?gpu(?::([^:=]+?))?[:=](\d+)", piece.strip())
        if match:
            kind = match[1] or ""
            gpus[kind] = gpus.get(kind, 0) + int(match[2])
    return gpus


def _accounts(mine: Iterable[str], all_accounts: Iterable[str]) -> list[dict[str, Any]]:
    parents = {}
    for row in map(_association, all_accounts):
        if row and not row["User"]:
            parents[row["Cluster"], row["Account"]] = row
    return [
        {
            "name": row["Account"],
            "cluster": row["Cluster"],
            "partition": row["Partition"],
            "default_qos": row["DefaultQOS"],
            "qos": _names(row["QOS"]),
            "max_submit": _number(row["MaxSubmit"]),
            "group_submit": _group_limit(row, parents),
        }
        for row in map(_association, mine)
        if row
    ]


def _association(line: str) -> dict[str, str]:
    names, values = ASSOCIATIONS.split(","), line.split("|")
    return (
        dict(zip(names, map(str.strip, values), strict=False)) if len(values) >= len(names) else {}
    )


def _group_limit(
    row: Mapping[str, str], parents: Mapping[tuple[str, str], Mapping[str, str]]
) -> int | None:
    """The smallest limit of the account and of those above it."""
    bounds = [_number(row["GrpSubmit"])]
    account, seen = row["Account"], set[str]()
    while account and account not in seen:
        seen.add(account)
        above = parents.get((row["Cluster"], account))
        if above is None:
            break
        bounds += [_number(above["GrpSubmit"])]
        account = above["ParentName"]
    return min((bound for bound in bounds if bound is not None), default=None)


def _qos(lines: Iterable[str], mine: set[str]) -> list[dict[str, Any]]:
    names = QOS.split(",")
    found = []
    for line in lines:
        values = line.split("|")
        if len(values) < len(names):
            continue
        row = dict(zip(names, values, strict=False))
        bounds = [_number(row[key]) for key in ("MaxSubmitPU", "MaxSubmitPA", "GrpSubmit")]
        found.append(
            {
                "name": row["Name"],
                "mine": not mine or row["Name"] in mine,
                "max_minutes": parse_minutes(row["MaxWall"]),
                "max_jobs": _number(row["MaxJobsPU"]),
                "max_submit": min((bound for bound in bounds if bound is not None), default=None),
                "max_per_user": row["MaxTRESPU"],
                "max_per_job": row["MaxTRES"],
                "max_together": row["GrpTRES"],
            }
        )
    return found


UNUSABLE = ("down", "drain", "fail", "maint", "unk", "no_respond", "inval", "reserved")
"""How a node's state begins or what it holds when nothing of it can be had."""


def parse_capacity(text: str) -> list[Room]:
    """What each partition has, what of it is free, who uses it and how many wait."""
    sections = defaultdict(list, split_sections(text))
    nodes = _count_nodes(sections["nodes"])
    waiting, users = _count_jobs(sections["jobs"])
    return [
        Room(
            name=name,
            total=_present(there, "total"),
            free=_present(there, "free"),
            waiting=waiting.get(name, 0),
            users={user: dict(use) for user, use in sorted(users.get(name, {}).items())},
            note=_note(there),
        )
        for name, there in nodes.items()
    ]


Counts = dict[str, float]


def _present(there: Mapping[str, float], which: str) -> Counts:
    words = ("nodes", "cpus", "gpus") if there["total gpus"] else ("nodes", "cpus")
    return {word: there[f"{which} {word}"] for word in words}


def _note(there: Mapping[str, float]) -> str:
    types = [
        f"{there[f'free type {name}']:g} of {count:g} {name}"
        for key, count in there.items()
        if key.startswith("total type ") and (name := key.removeprefix("total type "))
    ]
    notes = [f"free: {', '.join(types)}"] if types else []
    if away := there["away"]:
        notes.append(f"{away:g} {'node is' if away == 1 else 'nodes are'} down or drained")
    return "; ".join(notes)


def _count_nodes(lines: Iterable[str]) -> dict[str, Counts]:
    rooms: dict[str, Counts] = defaultdict(lambda: defaultdict(float))
    for line in lines:
        match = re.match(r"(\d+)\s+(.*)", line)
        fields = match[2].split("|") if match else []
        if match and len(fields) >= 5:  # noqa: PLR2004
            _count_node(rooms[fields[0].rstrip("*")], int(match[1]), fields)
    return dict(rooms)


def _count_node(room: Counts, count: int, fields: Sequence[str]) -> None:
    _, state, cpus, gres, used = fields[:5]
    usable = not any(word in state.lower() for word in UNUSABLE)
    _, idle, _, total = (*(int(part) for part in cpus.split("/") if part.isdigit()), 0, 0, 0, 0)[:4]
    room["total nodes"] += count
    room["free nodes"] += count if usable and state.lower().startswith("idle") else 0
    room["away"] += 0 if usable else count
    room["total cpus"] += count * total
    room["free cpus"] += count * idle if usable else 0
    room["total gpus"] += 0
    room["free gpus"] += 0
    taken = parse_gres(used)
    for kind, there in parse_gres(gres).items():
        free = max(0, there - taken.get(kind, 0)) if usable else 0
        room["total gpus"] += count * there
        room["free gpus"] += count * free
        if kind:
            room[f"total type {kind}"] += count * there
            room[f"free type {kind}"] += count * free


def _count_jobs(
    lines: Iterable[str],
) -> tuple[dict[str, int], dict[str, dict[str, dict[str, float]]]]:
    waiting: dict[str, int] = defaultdict(int)
    users: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for line in lines:
        match = re.match(r"(\d+)\s+(.*)", line)
        fields = match[2].split("|") if match else []
        if not match or len(fields) < 4:  # noqa: PLR2004
            continue
        partitions, user, state, tres = fields[:4]
        for name in partitions.split(","):
            if state == "PD":
                waiting[name] += int(match[1])
                continue
            use = users[name].setdefault(user, {"cpus": 0.0, "gpus": 0.0})
            for word, amount in _amounts(tres).items():
                use[word] += int(match[1]) * amount
    return waiting, users


def _amounts(tres: str) -> dict[str, float]:
    """CPUs and GPUs of a job; a typed entry is part of the untyped one, which may be missing."""
    amounts = dict(piece.partition("=")[::2] for piece in tres.split(","))
    typed = sum(int(n) for key, n in amounts.items() if key.startswith("gres/gpu:") and n.isdigit())
    return {
        "cpus": float(_number(amounts.get("cpu", "")) or 0),
        "gpus": float(_number(amounts.get("gres/gpu", "")) or typed),
    }
