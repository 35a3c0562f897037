"""How the keys of object storage are found, without any request."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import ConfigError, DataError
from launchbay.sync.bucket import BucketOptions, same_store
from launchbay.sync.credentials import describe_login, find_login

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from launchbay.sync.credential_programs import Keys
    from launchbay.sync.credentials import Login

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush"}


@pytest.fixture
def s3(tmp_path: Path) -> Callable[..., Login]:
    """The login for a bucket in S3, with a home of its own."""

    def find(env: dict[str, str] | None = None, **changes: str | bool) -> Login:
        given = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), **(env or {})}
        return find_login(BucketOptions(**{"url": "s3://lab", "env": given, **changes}))  # type: ignore[arg-type]

    return find


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def keys_of(login: Login) -> Keys:
    assert login.keys is not None
    return login.keys()


def test_keys_from_the_environment(
    s3: Callable[..., Login], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that are set are used, and it is said where they come from."""
    login = s3({**KEYS, "AWS_SESSION_TOKEN": "token"})
    found = keys_of(login)
    assert (found.id, found.secret, found.token) == ("id", "hush", "token")
    assert login.words == "keys from .env"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    assert s3(KEYS).words == "keys from the environment"


def test_half_a_key_is_a_mistake(s3: Callable[..., Login]) -> None:
    """A key without its secret is said to be one, not taken for nobody."""
    with pytest.raises(ConfigError, match="AWS_SECRET_ACCESS_KEY is not"):
        s3({"AWS_ACCESS_KEY_ID": "id"})


def test_nobody_when_there_are_no_keys(s3: Callable[..., Login]) -> None:
    """Without keys, and where it is asked for, requests are not signed."""
    assert s3().anonymous
    assert s3().words == "nobody (anonymous)"
    assert s3(KEYS, anonymous=True).anonymous


def test_secrets_are_not_shown(s3: Callable[..., Login]) -> None:
    """No value that may be printed shows a secret."""
    login = s3({**KEYS, "AWS_SESSION_TOKEN": "token"})
    options = BucketOptions(url="s3://lab", env=KEYS)
    assert "hush" not in f"{login!r} {keys_of(login)!r} {options!r} {describe_login(options)}"


def test_profiles_of_aws(s3: Callable[..., Login], tmp_path: Path) -> None:
    """The default profile, one that a variable names, and one that the bucket names."""
    write(
        tmp_path / ".aws/credentials",
        "[default]\naws_access_key_id = plain\naws_secret_access_key = a%b\n"
        "[lab]\naws_access_key_id = labs\naws_secret_access_key = c\naws_session_token = d\n",
    )
    write(
        tmp_path / ".aws/config",
        "[default]\nregion = eu-north-1\n[profile lab]\nregion = eu-west-1\n"
        "endpoint_url = http://store.lab\n",
    )
    usual, lab = s3(), s3({"AWS_PROFILE": "lab"})
    assert (keys_of(usual).id, keys_of(usual).secret) == ("plain", "a%b")
    assert (usual.words, usual.region) == ("profile default", "eu-north-1")
    assert (keys_of(lab).id, keys_of(lab).token) == ("labs", "d")
    assert (lab.words, lab.region, lab.endpoint) == (
        "profile lab",
        "eu-west-1",
        "http://store.lab",
    )
    assert keys_of(s3({**KEYS, "AWS_PROFILE": "lab"})).id == "id"
    assert keys_of(s3(KEYS, profile="lab")).id == "labs"


def test_a_profile_that_does_not_exist(s3: Callable[..., Login]) -> None:
    """A bucket's profile must be there; the sentence says how to make it."""
    with pytest.raises(ConfigError, match="no profile `lab`") as caught:
        s3(profile="lab")
    assert caught.value.hint == "make it with: aws configure --profile lab"


def test_files_of_profiles_elsewhere(s3: Callable[..., Login], tmp_path: Path) -> None:
    """The variables that say where the files are count."""
    env = {
        "AWS_SHARED_CREDENTIALS_FILE": str(
            write(tmp_path / "c", "[default]\naws_access_key_id=i\naws_secret_access_key=s\n")
        ),
        "AWS_CONFIG_FILE": str(write(tmp_path / "d", "[default]\nregion=eu-north-1\n")),
    }
    assert keys_of(s3(env)).id == "i"
    assert s3(env).region == "eu-north-1"
    write(tmp_path / "d", "no section")
    with pytest.raises(ConfigError, match="no file of profiles"):
        s3(env)


def test_keys_from_a_program(s3: Callable[..., Login], tmp_path: Path) -> None:
    """A profile's own program is run when keys are needed, and not before."""
    said = {"AccessKeyId": "i", "SecretAccessKey": "s", "Expiration": "2030-01-01T00:00:00Z"}
    program = write(
        tmp_path / "my keys",
        f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{json.dumps(said)}'\n",
        0o755,
    )
    write(tmp_path / ".aws/config", f"[default]\ncredential_process = '{program}' --now\n")
    login = s3()
    assert not (tmp_path / "ran").exists()
    found = keys_of(login)
    assert (found.id, found.expires) == ("i", datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("said", ["not json", '{"AccessKeyId": "i"}', "[]"])
def test_a_program_that_gives_no_keys(s3: Callable[..., Login], tmp_path: Path, said: str) -> None:
    """What it printed is not repeated, since it may be half a secret."""
    program = write(tmp_path / "p", f"#!/bin/sh\necho '{said}'\n", 0o755)
    write(tmp_path / ".aws/config", f"[default]\ncredential_process = {program}\n")
    with pytest.raises(DataError, match="gave no keys") as caught:
        keys_of(s3())
    assert said not in f"{caught.value} {caught.value.hint}"


def test_single_sign_on_needs_its_program(s3: Callable[..., Login], tmp_path: Path) -> None:
    """Without `aws` the sentence says so when keys are needed."""
    write(tmp_path / ".aws/config", "[default]\nsso_session = lab\n")
    login = s3()
    assert login.words == "profile default"
    with pytest.raises(DataError, match="which is not on PATH"):
        keys_of(login)


def test_roles_that_a_cluster_gives(s3: Callable[..., Login]) -> None:
    """A job's own role is handed on to the library as it is."""
    token = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "arn:x"}
    login = s3(token)
    assert (login.words, login.keys) == ("the cluster's role", None)
    assert login.settings == {"web_identity_token_file": "/t", "role_arn": "arn:x"}
    login = s3({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://c"})
    assert login.words == "the container's role"
    assert not login.anonymous
    assert s3({"AWS_ROLE_ARN": "arn:x"}).anonymous


def test_endpoints_and_regions(s3: Callable[..., Login]) -> None:
    """The bucket's own come first, then the variables in their order."""
    env = {"AWS_ENDPOINT_URL": "http://c", "AWS_DEFAULT_REGION": "r2"}
    assert (s3(env).endpoint, s3(env).region) == ("http://c", "r2")
    env |= {"AWS_ENDPOINT_URL_S3": "http://b", "AWS_REGION": "r1"}
    assert (s3(env).endpoint, s3(env).region) == ("http://b", "r1")
    env |= {"S3_ENDPOINT_URL": "http://a/"}
    assert s3(env).endpoint == "http://a"
    mine = s3(env, endpoint="store.lab:9000", region="r0")
    assert (mine.endpoint, mine.region) == ("https://store.lab:9000", "r0")


@pytest.fixture
def azure(tmp_path: Path) -> Callable[..., Login]:
    """The login for a container in Azure Blob."""

    def find(env: dict[str, str], **changes: str) -> Login:
        given = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), **env}
        return find_login(BucketOptions(**{"url": "az://lab", "env": given, **changes}))  # type: ignore[arg-type]

    return find


def test_keys_of_azure(azure: Callable[..., Login]) -> None:
    """An account's key, a shared access signature, a principal, or nobody."""
    account = {"AZURE_STORAGE_ACCOUNT": "lab"}
    assert azure(account).anonymous
    assert azure({**account, "AZURE_STORAGE_KEY": "k"}).settings == {
        "account_name": "lab",
        "account_key": "k",
    }
    assert azure({**account, "AZURE_STORAGE_SAS_TOKEN": "?s=1"}).settings["sas_key"] == "s=1"
    secret = {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_SECRET": "s"}
    assert azure({**account, **secret}).words == "the service principal"
    assert azure({}, account="mine").settings["account_name"] == "mine"
    with pytest.raises(ConfigError, match="storage account, and none is named"):
        azure({})


def test_connection_strings(azure: Callable[..., Login]) -> None:
    """All that a connection string says is taken, also the short one for azurite."""
    whole = "AccountName=lab;AccountKey=ab==;EndpointSuffix=core.example"
    login = azure({"AZURE_STORAGE_CONNECTION_STRING": whole})
    assert login.endpoint == "https://lab.blob.core.example"
    assert login.settings == {"account_name": "lab", "account_key": "ab=="}
    short = azure({"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"})
    assert short.endpoint == "http://127.0.0.1:10000/devstoreaccount1"


def test_the_login_of_az(azure: Callable[..., Login], tmp_path: Path) -> None:
    """A session of `az` is used where both it and its program are there."""
    account = {"AZURE_STORAGE_ACCOUNT": "lab"}
    write(tmp_path / ".azure/azureProfile.json", "{}")
    assert azure(account).anonymous
    write(tmp_path / "bin/az", "#!/bin/sh\n", 0o755)
    assert azure(account).words == "the login of `az`"


def test_logins_of_google(tmp_path: Path) -> None:
    """A key file, the application default, the session of `gcloud`, or nobody."""
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/bin"}

    def find(**more: str) -> Login:
        return find_login(BucketOptions(url="gs://lab", env={**env, **more}))

    assert find().anonymous
    write(tmp_path / "bin/gcloud", "#!/bin/sh\necho a-token\n", 0o755)
    write(tmp_path / ".config/gcloud/credentials.db", "")
    token = find().token
    assert token is not None
    assert token() == "a-token"
    usual = write(tmp_path / ".config/gcloud/application_default_credentials.json", "{}")
    assert find().settings == {"application_credentials": str(usual)}
    assert find(GOOGLE_APPLICATION_CREDENTIALS="/k.json").words == "the key file /k.json"
    assert find(STORAGE_EMULATOR_HOST="localhost:4443").endpoint == "http://localhost:4443"


def test_the_same_store() -> None:
    """One service and one login make one store; the bucket does not matter."""
    here = BucketOptions(url="s3://a", endpoint="http://x", env=KEYS)
    assert same_store(here, BucketOptions(url="s3://b/c", endpoint="http://x/", env=KEYS))
    others = [
        BucketOptions(url="s3://a", endpoint="http://y", env=KEYS),
        BucketOptions(url="s3://a", endpoint="http://x", env={**KEYS, "AWS_ACCESS_KEY_ID": "j"}),
        BucketOptions(url="s3://a", endpoint="http://x", env=KEYS, anonymous=True),
        BucketOptions(url="gs://a", env=KEYS),
        BucketOptions(url="file:///a"),
    ]
    assert not any(same_store(here, other) for other in others)
    assert same_store(BucketOptions(url="file:///a"), BucketOptions(url="file:///b"))
