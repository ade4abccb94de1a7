"""The routes answer only their own host, only for ids they gave out, and repeat nothing they were sent."""

import io

import numpy as np
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from ctxviz.pictures import from_image, read_bytes
from ctxviz.ui import cell_view, enlarged, routes, tables
from ctxviz.ui.card_data import card_data
from ctxviz.ui.shown_prompt import PictureFiles
from ctxviz.ui.views import View, views
from tests.browser import harness

PROBE = "zq9<script>"


async def _echo(websocket):
    await websocket.accept()
    await websocket.send_text("hello")
    await websocket.close()


def application() -> Starlette:
    socket = WebSocketRoute("/_stcore/stream", _echo)
    return Starlette(routes=[*routes.routes(), socket], middleware=routes.middleware())


def ask(address: str, host: str = "localhost:8501"):
    with TestClient(application(), base_url=f"http://{host}") as client:
        return client.get(address)


@pytest.fixture
def view() -> View:
    view = views().create()
    view.show(harness.whole(4, 6), "done")
    return view


def test_a_delta_of_a_known_view(view):
    answer = ask(f"/_ctxviz/delta/{view.id}?from=2&references=0&epoch=1&metric=scale_ratio&variant=1")
    assert answer.status_code == 200
    assert (answer.json()["from"], len(answer.json()["tokens"])) == (2, 4)
    assert answer.json()["field"]["variant"] == 1
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("chart", tables.CHARTS)
def test_every_table_is_csv(view, chart):
    view.show(harness.replayed(4, 12), "done")
    answer = ask(f"/_ctxviz/table/{view.id}?chart={chart}")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.content.decode("utf-8-sig").startswith("step,")


def test_a_cell_of_a_known_view(view):
    answer = ask(f"/_ctxviz/cell/{view.id}?step=2&layer=3&variant=1")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.json() == cell_view.answer(view, 2, 3, 1)
    assert answer.json()["cell"]["why"] == ""
    unpicked = ask(f"/_ctxviz/cell/{view.id}").json()
    assert unpicked == cell_view.answer(view, None, None, 0)
    assert unpicked["cell"]["why"].startswith("Smallest |h| of this run")


@pytest.mark.parametrize("name", enlarged.FIGURES)
def test_every_large_figure_is_the_card_of_the_run(view, name):
    run = harness.replayed(4, 12)
    view.show(run, "done")
    query = f"name={name}&metric=scale_ratio&step=2&layer=3&variant=1"
    answer = ask(f"/_ctxviz/figure/{view.id}?{query}")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    told = answer.json()
    assert told["epoch"] == view.epoch
    card = enlarged.card(run, name, "scale_ratio", 1, 2, 3)
    assert told["card"] == card_data(card)


@pytest.mark.parametrize("kind", ["delta", "cell", "figure", "values", "table", "picture"])
def test_an_unknown_id_is_not_found(kind):
    answer = ask(f"/_ctxviz/{kind}/{PROBE}" + ("/0" if kind == "picture" else ""))
    assert answer.headers["content-type"] == "application/json"
    assert answer.status_code == 404
    assert "zq9" not in answer.text


def test_a_large_figure_of_a_view_without_a_run_is_refused(view):
    view.show(None, "empty")
    assert ask(f"/_ctxviz/figure/{view.id}").json() == {"error": "bad query"}
    assert ask(f"/_ctxviz/cell/{view.id}").json() == {"epoch": view.epoch, "cell": None}


@pytest.mark.parametrize(
    "query",
    [
        f"delta?from={PROBE}",
        "delta?from=-1",
        "delta?from=1e3",
        "delta?from=9999999999",
        "delta?epoch=x",
        f"delta?metric={PROBE}",
        "delta?metric=__class__",
        "cell?step=-1",
        "cell?step=1.5",
        f"cell?layer={PROBE}",
        "cell?variant=%D9%A1",
        "cell?variant=99999999999",
        f"figure?name={PROBE}",
        "figure?name=__class__",
        "figure?metric=h_argmin",
        "figure?step=6",
        "figure?layer=4",
        "figure?variant=4",
        "figure?step=-1",
        "values?metric=h_argmin",
        "values?variant=-1",
        f"table?chart={PROBE}",
        "table?chart=field",
        "values/csv?variant=4",
    ],
)
def test_a_bad_query_is_refused(view, query):
    kind, _, asked = query.partition("?")
    kind, _, more = kind.partition("/")
    answer = ask(f"/_ctxviz/{kind}/{view.id}{more and '/' + more}?{asked}")
    assert answer.status_code == 400
    assert answer.json() == {"error": "bad query"}


def test_a_picture_comes_as_a_png_of_its_own(view):
    run = harness.pictured((2, 2), "all", sizes=(256, 1024))
    view.show(run, "done")
    answers = [ask(f"/_ctxviz/picture/{view.id}/{k}") for k in range(2)]
    assert [answer.headers["content-type"] for answer in answers] == ["image/png"] * 2
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    first, second = (Image.open(io.BytesIO(answer.content)) for answer in answers)
    assert (first.format, first.mode, first.size) == ("PNG", "RGB", (256, 256))
    assert np.array_equal(first, run.pictures[0].image)
    assert second.size == (128, 512)
    assert (
        ask(f"/_ctxviz/picture/{view.id}/0?sha256={run.pictures[0].sha256[:12]}").content
        == answers[0].content
    )


def test_nothing_of_the_given_file_is_served_but_its_picture(view):
    given = Image.new("RGB", (40, 20), "red")
    exif = given.getexif()
    exif[0x010E], exif[0x0112] = "a secret place", 6
    file = io.BytesIO()
    given.save(file, "JPEG", exif=exif)
    run = harness.pictured((2,), "all")
    run.pictures = (read_bytes(file.getvalue(), "p.jpg"),)
    view.show(run, "done")
    answer = ask(f"/_ctxviz/picture/{view.id}/0")
    assert Image.open(io.BytesIO(answer.content)).size == (20, 40)
    assert b"secret" in file.getvalue()
    assert b"secret" not in answer.content


def test_a_picture_is_encoded_once():
    files, picture = PictureFiles(), harness.pictured((2,), "all").pictures[0]
    assert files.png(picture) is files.png(picture)
    for i in range(40):
        files.png(from_image(Image.new("RGB", (2, 2), (i, 0, 0)), "p"))
    assert len(files._files) == 32
    assert picture.sha256 not in files._files


@pytest.mark.parametrize("number", ["2", "-1", "x", "1e3", "٠", "99999999999", PROBE])
def test_another_picture_is_not_found(view, number):
    view.show(harness.pictured((2, 2), "all"), "done")
    answer = ask(f"/_ctxviz/picture/{view.id}/{number}")
    assert answer.status_code == 404
    assert "zq9" not in answer.text


def test_the_picture_of_another_run_is_not_found(view):
    assert ask(f"/_ctxviz/picture/{view.id}/0").status_code == 404
    view.show(harness.pictured((2,), "all", stored=False), "done")
    assert ask(f"/_ctxviz/picture/{view.id}/0").status_code == 404
    view.show(harness.pictured((2,), "all"), "done")
    assert ask(f"/_ctxviz/picture/{view.id}/0?sha256=000000000000").status_code == 404
    view.show(None, "empty")
    assert ask(f"/_ctxviz/picture/{view.id}/0").status_code == 404


def test_front_end_files_have_their_type_and_may_be_kept():
    script = ask(routes.asset_url("live.js"))
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    assert ask(routes.asset_url("live.css")).headers["content-type"].startswith("text/css")
    assert "plotly" in ask(routes.asset_url("plotly.min.js")).text[:200]


@pytest.mark.parametrize(
    "address",
    [
        "/_ctxviz/static/0000000000000000/live.js",
        routes.asset_url("nothing.js"),
        routes.asset_url("..%2froutes.py"),
        routes.asset_url("..%2f..%2f..%2fpyproject.toml"),
    ],
)
def test_nothing_else_is_served(address):
    assert ask(address).status_code == 404


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8501", "[::1]:8501"])
def test_the_loopback_is_answered(view, host):
    assert ask(f"/_ctxviz/delta/{view.id}", host).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"])
def test_other_hosts_are_not(view, host):
    assert ask(f"/_ctxviz/delta/{view.id}", host).status_code == 400


def test_other_hosts_are_not_on_the_websocket_either():
    with TestClient(application()) as client:
        with client.websocket_connect("ws://localhost/_stcore/stream") as socket:
            assert socket.receive_text() == "hello"
        refused = client.websocket_connect("ws://evil.example/_stcore/stream")
        with pytest.raises(WebSocketDisconnect), refused:
            pass


def test_further_hosts_can_be_allowed(view, monkeypatch):
    monkeypatch.setenv(routes.ALLOWED_HOSTS, "lab.example, *, evil.example/x;script-src *")
    assert routes.allowed_hosts() == [*routes.LOOPBACK, "lab.example"]
    assert ask(f"/_ctxviz/delta/{view.id}", "lab.example").status_code == 200
    assert ask(f"/_ctxviz/delta/{view.id}", "evil.example").status_code == 400


def test_every_answer_carries_the_security_headers(view):
    for address in (f"/_ctxviz/delta/{view.id}", "/_ctxviz/delta/unknown", "/elsewhere"):
        headers = ask(address).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'self'" in headers["content-security-policy"]


def test_the_policy_lets_nothing_in_from_outside():
    rules = dict(
        rule.strip().split(" ", 1) for rule in routes.content_policy(routes.allowed_hosts()).split(";")
    )
    own = {"'self'", "'none'", "blob:", "data:", "'unsafe-inline'", "'unsafe-eval'"}
    for name, value in rules.items():
        for source in value.split():
            local = source in own or source.startswith("'sha256-")
            assert local or source.split("//")[1].startswith(("localhost:", "127.0.0.1:")), (name, source)
    assert "'unsafe-inline'" not in rules["script-src"]
