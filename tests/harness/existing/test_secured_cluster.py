"""Runs against clusters that ask for TLS and SASL: our own broker behind an endpoint that ends both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.names import SpecError
from harness.environments.base import EnvironmentFailed
from harness.environments.existing.discovery import discover
from harness.terminal.exits import ExitStatus
from history.reader import read_table
from tests.harness.existing.test_existing_cluster import run
from tests.support.local_cluster import LocalCluster
from tests.support.secure_endpoint import SecureEndpoint, certificate, client_certificate

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificate, is missing"),
]

USER, PASSWORD, KEY_PASSWORD = "harrow", "s3cret-of-the-test", "s3cret-of-the-key"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureEndpoint, Path]]:
    """An endpoint that the broker behind it advertises, and the directory with its certificate and password."""
    directory = tmp_path_factory.mktemp("secured")
    endpoint = SecureEndpoint(certificate(directory), (USER, PASSWORD))
    with LocalCluster(brokers=1, combined=True, advertised_listeners=advertised(endpoint)) as cluster:
        host, port = cluster.addresses[1].rsplit(":", 1)
        endpoint.target = (host, int(port))
        (directory / "password").write_text(PASSWORD + "\n")
        yield endpoint, directory
        endpoint.close()


def advertised(endpoint: SecureEndpoint) -> str:
    """Nobody else needs to reach a lone node, so its other addresses may lead nowhere."""
    return f"CLIENT://127.0.0.1:{endpoint.port},BROKER://127.0.0.1:9,CONTROLLER://127.0.0.1:9"


def config(directory: Path, **changed: str | None) -> str:
    settings: dict[str, str | None] = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "broker.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password.file": "password",
        **{key.replace("_", "."): value for key, value in changed.items()},
    }
    path = directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items() if value is not None))
    return str(path)


@pytest.mark.slow
def test_three_libraries_write_and_read_through_tls_and_sasl(
    secured: tuple[SecureEndpoint, Path], tmp_path: Path
) -> None:
    endpoint, directory = secured
    pytest.importorskip("confluent_kafka")
    pytest.importorskip("aiokafka")
    words = ["--bootstrap", f"127.0.0.1:{endpoint.port}", "--client-config", config(directory), "--no-check"]
    words += ["--clients", "kafka-python,aiokafka,confluent-kafka", "--duration", "3", "--seed", "1"]
    status, run_directory = run(tmp_path / "store", *words)
    assert status == ExitStatus.VALID
    sends = [row for row in read_table(run_directory, "operations").to_pylist() if row["kind"] == "send"]
    assert {row["client"].split()[0] for row in sends if row["status"] == "ok"} == {
        "kafka-python",
        "aiokafka",
        "confluent-kafka",
    }
    assert len(read_table(run_directory, "cluster").to_pylist()) > 0
    assert endpoint.logins > 3
    kept = [
        path for path in (tmp_path / "store").rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]
    assert kept == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"sasl_username": "nobody"}, "the broker refused user nobody: wrong"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "expected the broker to offer SCRAM-SHA-256, found PLAIN"),
        ({"ssl_ca_location": None}, "CERTIFICATE_VERIFY_FAILED"),
        (
            {"security_protocol": "SSL", "sasl_username": None, "sasl_mechanism": None, "sasl_password_file": None},
            "none that answers as one",
        ),
    ],
)
def test_a_broker_that_refuses_is_one_line(
    secured: tuple[SecureEndpoint, Path], changed: dict[str, str | None], found: str
) -> None:
    endpoint, directory = secured
    with pytest.raises(EnvironmentFailed) as failed:
        discover(f"127.0.0.1:{endpoint.port}", 1, config(directory, **changed))
    assert found in str(failed.value)
    assert "\n" not in str(failed.value)
    assert PASSWORD not in str(failed.value)


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureEndpoint, Path]]:
    """An endpoint that wants a client's certificate, and the directory with it, its encrypted key and its password."""
    directory = tmp_path_factory.mktemp("mutual")
    trusted, _ = client_certificate(directory, KEY_PASSWORD)
    client_certificate(directory, KEY_PASSWORD, "stranger")
    endpoint = SecureEndpoint(certificate(directory), None, trusted)
    with LocalCluster(brokers=1, combined=True, advertised_listeners=advertised(endpoint)) as cluster:
        host, port = cluster.addresses[1].rsplit(":", 1)
        endpoint.target = (host, int(port))
        (directory / "password").write_text(KEY_PASSWORD + "\n")
        yield endpoint, directory
        endpoint.close()


def mutual_config(directory: Path, client: str | None = "client", password: str | None = "password") -> str:
    none: dict[str, str | None] = dict.fromkeys(("sasl_mechanism", "sasl_username", "sasl_password_file"))
    if client is not None:
        none |= {"ssl_certificate_location": f"{client}.pem", "ssl_key_location": f"{client}.key"}
    return config(directory, security_protocol="SSL", ssl_key_password_file=password, **none)


@pytest.mark.slow
def test_three_libraries_show_a_certificate_whose_key_is_encrypted(
    mutual: tuple[SecureEndpoint, Path], tmp_path: Path
) -> None:
    endpoint, directory = mutual
    pytest.importorskip("confluent_kafka")
    pytest.importorskip("aiokafka")
    words = ["--bootstrap", f"127.0.0.1:{endpoint.port}", "--client-config", mutual_config(directory), "--no-check"]
    words += ["--clients", "kafka-python,aiokafka,confluent-kafka", "--duration", "3", "--seed", "1"]
    status, run_directory = run(tmp_path / "store", *words)
    assert status == ExitStatus.VALID
    sends = [row for row in read_table(run_directory, "operations").to_pylist() if row["kind"] == "send"]
    assert {row["client"].split()[0] for row in sends if row["status"] == "ok"} == {
        "kafka-python",
        "aiokafka",
        "confluent-kafka",
    }
    assert len(read_table(run_directory, "cluster").to_pylist()) > 0
    kept = [
        path
        for path in (tmp_path / "store").rglob("*")
        if path.is_file() and KEY_PASSWORD.encode() in path.read_bytes()
    ]
    assert kept == []


@pytest.mark.parametrize(
    ("client", "found"), [(None, "asked SSL with no certificate of"), ("stranger", "stranger.pem of")]
)
def test_a_client_that_the_broker_does_not_trust_is_one_line(
    client: str | None, found: str, mutual: tuple[SecureEndpoint, Path]
) -> None:
    endpoint, directory = mutual
    path = mutual_config(directory, client, "password" if client else None)
    with pytest.raises(EnvironmentFailed) as failed:
        discover(f"127.0.0.1:{endpoint.port}", 1, path)
    assert "\n" not in str(failed.value)
    assert found in str(failed.value)


@pytest.mark.parametrize(("password", "found"), [(None, "found none"), ("other", "found another")])
def test_a_key_needs_its_password(
    password: str | None, found: str, mutual: tuple[SecureEndpoint, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, directory = mutual
    (directory / "other").write_text("not this one\n")
    with pytest.raises(SpecError, match=f"expected the password of the key in .*client.key, {found}"):
        discover(f"127.0.0.1:{endpoint.port}", 1, mutual_config(directory, password=password))
    path = Path(mutual_config(directory, password=None))
    path.write_text(path.read_text() + "ssl.key.password.env=HARROW_TEST_KEY\n")
    monkeypatch.setenv("HARROW_TEST_KEY", KEY_PASSWORD)
    assert list(discover(f"127.0.0.1:{endpoint.port}", 1, str(path)).brokers) == [1]


def test_plain_text_is_refused_with_what_to_do(secured: tuple[SecureEndpoint, Path]) -> None:
    with pytest.raises(EnvironmentFailed, match="--client-config"):
        discover(f"127.0.0.1:{secured[0].port}")


def test_a_certificate_of_another_host_is_refused_unless_names_do_not_matter(tmp_path: Path) -> None:
    endpoint = SecureEndpoint(certificate(tmp_path, "127.0.0.9"), None)
    with LocalCluster(brokers=1, combined=True, advertised_listeners=advertised(endpoint)) as cluster:
        host, port = cluster.addresses[1].rsplit(":", 1)
        endpoint.target = (host, int(port))
        no_login = {"sasl_mechanism": None, "sasl_username": None, "sasl_password_file": None}
        with pytest.raises(EnvironmentFailed, match="IP address mismatch"):
            discover(f"127.0.0.1:{endpoint.port}", 1, config(tmp_path, security_protocol="SSL", **no_login))
        path = Path(config(tmp_path, security_protocol="SSL", **no_login))
        path.write_text(path.read_text() + "ssl.endpoint.identification.algorithm=none\n")
        assert list(discover(f"127.0.0.1:{endpoint.port}", 1, str(path)).brokers) == [1]
    endpoint.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("security.protocol=TLS", "expected PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL, found 'TLS'"),
        ("security.protocol", "expected key=value in line 1"),
        ("colour=red", "found 'colour'"),
        ("security.protocol=SASL_SSL\nsasl.username=u\nsasl.password=p", "name that with sasl.password.file or"),
        ("security.protocol=SSL\nssl.key.password=p", "name that with ssl.key.password.file or"),
        ("security.protocol=SSL\nssl.key.password.file=p", "expected the certificate of the key with a password"),
        ("security.protocol=SSL\nssl.key.password.file=p\nssl.key.password.env=P", "found both"),
        ("security.protocol=SASL_SSL\nsasl.password.env=P", "expected a user"),
        ("security.protocol=SASL_SSL\nsasl.username=u", "found neither"),
        ("security.protocol=SASL_SSL\nsasl.username=u\nsasl.password.env=NOT_SET_HERE", "NOT_SET_HERE, found none"),
        ("security.protocol=SASL_SSL\nsasl.username=u\nsasl.password.file=gone", "expected a file with the password"),
        ("security.protocol=SSL\nssl.ca.location=gone.pem", "expected certificates and keys in PEM"),
        ("ssl.ca.location=ca.pem", "expected one with SSL"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(text: str, found: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(SpecError) as wrong:
        discover("127.0.0.1:1", 1, str(path))
    assert found in str(wrong.value)
    assert str(path) in str(wrong.value)
    assert "\n" not in str(wrong.value)
