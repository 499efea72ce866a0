"""The app: ``panel()`` draws into any open ``gr.Blocks``, ``build()`` is a page of its own, ``launch()`` serves it.

To embed it, call ``panel()`` inside your own ``gr.Blocks``; ``docs/plugin.md`` shows how::

    with gr.Blocks() as host:
        with gr.Tab("Embeddings"):
            hfposemb.app.panel()

Folders, each of which imports only those before it: ``jobs`` (child processes and their queue), ``components`` (panels,
progress lines, theme), ``session`` (the state of a page), ``recipes`` (the code behind a panel), ``findings`` (a module
for each group of panels), ``lessons``, ``tabs`` (layout and event binding), ``server`` (API, public mode).

A tab is a module of ``tabs``, listed in ``TABS`` in display order. It defines ``TITLE``, ``NEEDS`` (what is fetched of
a Hub source before the tab draws: see ``opened.NEEDS``) and ``tab(session)``, which adds components to the open
``gr.Tab`` and binds their events. ``Layout`` adds the components, which are its attributes, ``Handlers`` has what the
events call, and the functions ``bind_…`` and ``keep_controls`` connect the two. The bar above the tabs,
``session.source_bar``, chooses the sources of all of them. They use:

- ``session.redraw(draw, outputs, inputs=…, on=…)`` calls ``draw(opened, *inputs)`` when the sources change or an event
  of ``on`` fires, but only while the tab is visible. ``opened`` is a tuple of ``Opened`` in page order; one with an
  ``error`` has no ``embeddings``. ``draw`` returns the values of its outputs and never uses the network.
- ``session.through(view, state)`` returns a session that draws ``view(opened, value)`` in place of ``opened``, such as
  one part of each source; ``within=unfolded`` draws what is in a fold while that is open.
- ``session.library.result(table, ("what", parameter, …), maker)`` computes a result once for all visitors;
  ``session.projection(table, method, dims)`` returns a PCA, or a UMAP if it is known.
- ``session.jobs.bind(asks)`` adds a progress line and returns a ``BackgroundJob``: ``draw`` sets its state ``wanted``,
  a list, ``asks`` says what computes one of it, and ``done`` changes when all of it has been computed or has not.
  ``session.jobs.layout`` asks for a UMAP.
- ``session.keep("method", method)`` stores a control's value in the page's URL. Every control that affects what is
  shown is stored, and accordions are created by ``session.fold``.
- Every ``PanelRow`` gets ``scope=session.scope``. A panel that shows numbers has a ``recipe``, which a test runs.
- ``session.show("tokens")`` returns the updates of ``[session.tabs, session.active]`` that select a tab,
  ``session.ask_for(text, source, row)`` that of ``session.asked``, which opens a word in Tokens.

Nothing heavy is imported, Gradio included, before ``panel()`` is called: child processes import this package too.
"""

from __future__ import annotations

import atexit
import gc
import html
import os
import shutil
import sys
import tempfile
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hfposemb.errors import HfposembError, InputError, MissingExtraError, require
from hfposemb.guesses import answering, several
from hfposemb.logs import keep_short
from hfposemb.samples import TRAINED
from hfposemb.text import display

from .server.reach import on_a_space

VARIABLE = "GRADIO_TEMP_DIR"


def own_folder() -> None:
    """Give Gradio a new folder, removed at exit, unless the environment sets one.

    Gradio's default is one folder for the whole machine, where only the user who started an app first may write.
    """
    if os.environ.get(VARIABLE):
        return
    folder = tempfile.mkdtemp(prefix="hfposemb-gradio-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = str(Path(folder).resolve())  # resolved, because Gradio compares resolved paths


# Disable telemetry before Gradio is imported, whichever module imports it.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
# Gradio keeps the last 10,000 events and sums them up with pandas, for a dashboard that this app does not offer.
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", str(2**31))
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import gradio as gr

    from hfposemb.tables.embeddings import Embeddings

    from .server.reach import Reach
    from .session.first_models import FirstModels
    from .session.opened import Opened
    from .session.plugged import Plugged
    from .session.state import Session

TABS: tuple[str, ...] = ("start", "positions", "tokens", "words", "compare", "training")
"""Modules of ``tabs``, in display order."""

__all__ = ["TABS", "build", "launch", "panel"]


def panel(
    *,
    public: bool = False,
    sources: Sequence[str | Embeddings] = (),
    tabs: Sequence[str] = TABS,
    controls: bool = True,
    address: bool = False,
    endpoints: bool = False,
) -> Plugged:
    """Draw the app into the open ``gr.Blocks``, in the theme of that page.

    Args:
        public: Whether others can reach the page; then no local path is read.
        sources: Sources to show first, instead of the default ones: names, or ``Embeddings`` that are in memory.
        tabs: The tabs to show, in this order, by their names in ``TABS``.
        controls: Whether to show the bar of sources and the controls of each tab.
        address: Store what is shown in the page's URL, so that it can be linked, and remember preferences in the
            browser: see ``session.preferences``. For at most one panel per page.
        endpoints: Offer the API of ``server.api`` to programs. For at most one panel per page.

    Returns:
        What the host can use: ``on_select`` calls a function with what was clicked, ``follow`` sets controls.

    Raises:
        HfposembError: No ``gr.Blocks`` is open.
        InputError: There is no such tab, or none.
        MissingExtraError: The extra ``app`` is not installed.
    """
    require("gradio", extra="app", purpose="the app")
    return _panel(sources, tabs, controls, public=public, address=address, endpoints=endpoints)


def _panel(
    sources: Sequence[str | Embeddings], tabs: Sequence[str] = TABS, controls: bool = True, **options: Any
) -> Plugged:
    """Draw the app into the open ``gr.Blocks``; the ``options`` are those of ``_drawn``."""
    from gradio.context import get_blocks_context

    page = get_blocks_context()
    if page is None:
        raise HfposembError("panel() needs an open gr.Blocks; use: with gr.Blocks() as host: panel()")
    sources, tabs = several(sources), several(tabs)
    if not tabs or set(tabs) - set(TABS):
        raise InputError(f"tabs must be some of {', '.join(TABS)}; got {', '.join(map(str, tabs)) or 'none'}")

    if wrong := [one for one in sources if not isinstance(one, str) and not hasattr(one, "positions")]:
        kind = type(wrong[0]).__name__
        raise InputError(f"sources must be names or what hpe.extract or hpe.from_arrays returns; got {kind}")

    from .jobs.lent import lend
    from .session.plugged import Plugged

    texts = [source if isinstance(source, str) else lend(source) for source in sources]
    before = set(page.blocks)
    session, sessions = _drawn(texts, list(dict.fromkeys(tabs)), **options)
    if not controls:
        _hide_controls([block for key, block in page.blocks.items() if key not in before])
    given = {text: one.name for text, one in zip(texts, sources, strict=True) if not isinstance(one, str)}
    return Plugged(session, sessions, given)


def _modules(names: Sequence[str]) -> dict[str, Any]:
    """Return the modules of tabs by name."""
    return {name: import_module(f".tabs.{name}", __package__) for name in names}


def _hide_controls(blocks: Sequence[Any]) -> None:
    """Hide the choice of sources and every bar of controls, whose values stay in use."""
    for block in blocks:
        if {"source-chips", "controls", "summary"} & set(getattr(block, "elem_classes", None) or ()):
            block.elem_classes = [*block.elem_classes, "unshown"]


def _drawn(
    sources: Sequence[str],
    names: Sequence[str],
    *,
    public: bool,
    address: bool,
    endpoints: bool,
    late: Mapping[str, Session] = MappingProxyType({}),
    below: str = "",
    **signing: Any,
) -> tuple[Session, dict[str, Session]]:
    """Draw the bar of sources, the tabs and the footer; return the session of the page and those of its tabs.

    The tabs ``late`` are drawn when they are first opened: see ``session.late_tabs``. The footer ends with the HTML
    ``below``. The rest is for the bar.
    """
    import gradio as gr
    from gradio.context import get_blocks_context

    from .components.events import State
    from .components.lines import pending_mark
    from .components.page_script import style_sheet
    from .lessons import card as lesson_card
    from .server import api
    from .session import address as addresses
    from .session import late_tabs, opening, preferences
    from .session.background_jobs import bind_stops
    from .session.guard import guard_listeners
    from .session.opened import NEEDS, split
    from .session.source_bar import SourceBar
    from .session.source_names import FIRST
    from .session.state import Session

    page = get_blocks_context()  # what is rendered in an open page is not of its Blocks
    assert page is not None
    others = set(page.fns)
    modules = _modules(names)
    shown, beyond = split(sources)
    first = tuple(shown) or FIRST
    drawn_at_once = names[0] == TABS[0]
    # Create these here, because Gradio counts everything between the tabs as a tab.
    chosen, active = State(list(first)), State(names[0] if drawn_at_once else "")
    states: dict[str, Any] = {"fetched": State({}), "restored": State(""), "view": State({})}
    dues = {name: State([]) for name in modules}
    states |= {"beyond": State(beyond), "asked": State([]), "own": State([]), "due": dues[names[0]]}
    states["pending"] = pending_mark()
    style_sheet()
    scope = f"p{uuid4().hex[:12]}"
    bar = SourceBar.drawn(first, scope, **signing)
    card = lesson_card.Card.drawn() if address and set(names) == set(TABS) else None  # lessons are links
    with gr.Tabs() as tabs:
        session = Session(public, first, chosen, active, tabs, scope=scope, keys=tuple(names), linked=address, **states)
        sessions = {
            name: session.at(name, getattr(module, "NEEDS", NEEDS), due=dues[name]) for name, module in modules.items()
        }
        if drawn_at_once:
            dues[names[0]].value = sessions[names[0]].drawn_with("", first)
        items = {}
        for name, module in modules.items():
            with gr.Tab(module.TITLE, id=name) as items[name]:
                if name not in late:
                    module.tab(sessions[name])

    def told(opened: Sequence[Opened]) -> str:
        return provenance(opened) + below

    foot = gr.HTML(told(session.open(first)), apply_default_css=False, elem_classes="provenance")
    opening.bind(sessions, bar.reading)
    bar.bind(session, sessions, foot, told)
    if card:
        card.bind(session, sessions)
    if address:
        written = addresses.bind(session, bar, list(modules), list(late.values()))
        preferences.bind(session, bar)
        for name in late:
            with items[name]:
                late_tabs.draw_later(modules[name].tab, sessions[name], written)
    session.bind_folds()
    session.bind_tabs(items)
    bind_stops(session.running, public=public)
    guard_listeners(page.fns, others, public=public)
    if endpoints:
        api.bind(session)
    return session, sessions


DEMOS = tuple(f"sample:{name}" for name in TRAINED)

DEMO = (
    "<p>The demo models were trained on one book for half an hour. Demo BERT learned to predict next words first, as a "
    "decoder does, and masked words afterwards.</p>"
)


MINILM = (
    "<p>MiniLM is all-MiniLM-L6-v2 by sentence-transformers, licence Apache-2.0; its words are rounded to 8 bits.</p>"
)


def provenance(opened: Sequence[Opened]) -> str:
    """Return the page's footer as HTML: every source with its tensors, shapes and stored data types.

    For Hub sources also the commit, how much of the file was read, and notes.
    """
    lines = []
    for source in opened:
        if source.embeddings is None:
            continue
        tables = []
        for table in source.embeddings.tables.values():
            origin = table.provenance
            size = f"{table.shape[0]:,} × {table.shape[1]:,}"
            tables.append(" ".join(filter(None, (origin.tensor, size, origin.stored_dtype if origin.file else ""))))
        where = source.text if any(table.provenance.file for table in source.embeddings.tables.values()) else "computed"
        words = " · ".join(display(part, width=120) for part in (where, *tables, *_read(source.embeddings)))
        lines.append(f"<p><strong>{html.escape(source.name)}</strong> {html.escape(words)}</p>")
    shown = [source.text.strip() for source in opened if source.embeddings is not None]
    demo = DEMO if any(text.startswith(DEMOS) for text in shown) else ""
    return f"<div>{''.join(lines)}</div>{demo}{MINILM if 'sample:minilm' in shown else ''}"


def _read(embeddings: Embeddings) -> list[str]:
    """Return what was read of a Hub source, out of how much."""
    from .jobs.fetching import megabytes

    if embeddings.traffic is None:
        return []
    origins = [table.provenance for table in embeddings.tables.values()]
    commits = dict.fromkeys(f"commit {origin.commit[:8]}" for origin in origins if origin.commit)
    whole = sum({origin.file: origin.file_bytes or 0 for origin in origins}.values())
    received = megabytes(embeddings.traffic.received) if embeddings.traffic.received else "nothing"
    return [*commits, f"read {received} of {megabytes(whole)}", *embeddings.notes]


def build(*, public: bool | None = None, sources: Sequence[str] = ()) -> gr.Blocks:
    """Return a page that contains only the app; ``public`` as in ``launch``, and then the footer lists the limits."""
    require("gradio", extra="app", purpose="the app")
    return _page(public=on_a_space() if public is None else public, sources=several(sources))[0]


def _page(
    *, public: bool, sources: Sequence[str], sign_in: bool = False, notice: str = ""
) -> tuple[gr.Blocks, Session]:
    """Return a page that contains only the app, with ``sign_in`` also the button to sign in; and its session.

    A ``notice`` is shown below the sources until they change.
    """
    from .components.theme import header
    from .limits import FILES_SECONDS
    from .server.page import Page
    from .session.late_tabs import sketched
    from .session.opened import split

    page = Page(title="hfposemb", analytics_enabled=False, delete_cache=(FILES_SECONDS, FILES_SECONDS))
    page.public = public
    draws = {name: module.tab for name, module in _modules(TABS[1:]).items()}
    late = sketched(draws, split(sources)[0], public=public)
    with page:
        header("Copy link", "Theme")
        own: dict[str, Any] = {"address": True, "endpoints": True, "sign_in": sign_in, "notice": notice, "late": late}
        session = _panel(sources, public=public, below=_limits(sign_in=sign_in) if public else "", **own).session
    return page, session


def _limits(*, sign_in: bool) -> str:
    """Return the limits of a public page as HTML."""
    from .limits import told

    points = "".join(f"<li>{html.escape(line)}</li>" for line in told(sign_in=sign_in))
    return f'<details class="limits"><summary>Limits of this public page</summary><ul>{points}</ul></details>'


def launch(  # noqa: PLR0913 - keywords with defaults
    sources: Sequence[str] = (),
    *,
    host: str | None = None,
    port: int | None = None,
    share: bool | None = None,
    public: bool | None = None,
    auth: Any = None,
    inbrowser: bool = False,
    mcp: bool | None = None,
    warm: bool = True,
    debug: bool = False,
    **options: Any,
) -> gr.Blocks:
    """Serve the app until it is stopped, or in the background with ``prevent_thread_lock=True``.

    Guarantees in public mode: only public Hub models, samples and built-ins, without this machine's token; no local
    file, no upload; and the limits of ``limits``, ``jobs.queue`` and ``server.route_allowlist``. On a Space with OAuth,
    visitors can sign in and open what their own accounts can read. Lines at the start state the mode.

    Args:
        sources: Sources to show first, instead of the default ones.
        host: Address to listen on, ``127.0.0.1`` by default.
        port: Port to listen on; by default the first free one from 7860 on.
        share: Whether to create a public share link.
        public: Whether to serve in public mode. By default if others could reach the app: with ``share``, on a ``host``
            that is not loopback, or on a Hugging Face Space. ``False`` lets everybody who can reach the app read this
            machine's files.
        auth: "USER:PASSWORD", "@FILE" with one per line, or any value that Gradio accepts; by default $HFPOSEMB_AUTH.
        inbrowser: Open the page in a browser once it is served.
        mcp: Also serve the tools of ``server.mcp_server`` at ``/gradio_api/mcp/``; needs the extra ``mcp``. By default
            on a Hugging Face Space, and where ``$GRADIO_MCP_SERVER`` is true, if there is no password.
        warm: Compile UMAP in a background process, so that the first UMAP on this machine need not.
        debug: Print the traceback of every bug.
        options: Further options of ``gr.Blocks.launch``, except those that this function sets.

    Returns:
        The page.

    Raises:
        InputError: An option is invalid.
        MissingExtraError: The extra ``app`` is not installed, or ``mcp`` is set and that extra is not.
        HfposembError: The app cannot listen on the address.
    """
    from . import failures
    from .jobs import children
    from .server.gradio_patches import import_gradio
    from .server.reach import free_port, offers_sign_in, open_browser, reach

    if fixed := _SET & options.keys():
        raise InputError(f"launch sets {', '.join(sorted(fixed))} itself; set the address with host= and port=")
    own_folder()
    import_gradio()
    from .session.first_models import LOCAL_SECONDS, SPACE_SECONDS, FirstModels  # imports Gradio

    sources = several(sources)
    options["auth"] = _login(auth, mcp=mcp is True)
    mcp = _serves_tools(mcp, login=bool(options["auth"]))
    at = reach(host, share, public)
    first = None if sources else FirstModels(public=at.public)
    sign_in = at.public and not options["auth"] and offers_sign_in()
    free_port(at.host, port)  # raises before anything is built
    failures.show_tracebacks(debug)
    quiet, blocking = options.pop("quiet", False), not options.pop("prevent_thread_lock", False)
    say: Callable[[str], None] = partial(print, flush=True) if not quiet else lambda _: None
    if first is not None:
        _modules(TABS)  # are imported while they are read
        first.wait(SPACE_SECONDS if on_a_space() else LOCAL_SECONDS)
        sources = first.built = first.sources()
    blocks, session = _page(public=at.public, sources=sources, sign_in=sign_in, notice=first.said() if first else "")
    say(at.sentence)
    if sign_in:
        say("Visitors can sign in with Hugging Face to open the models that their own account can read.")
    warming = children.warm_later(public=at.public) if warm else None
    try:
        _serve(blocks, at, port, session if mcp else None, first, sign_in=sign_in, **options)
    except HfposembError:
        if warming is not None:
            warming.set()
        raise
    say(_running(blocks, asked=port, blocking=blocking))
    if mcp:
        say(f"Agents: {(blocks.share_url or blocks.local_url or '').rstrip('/')}/gradio_api/mcp/ (MCP).")
    if inbrowser:
        open_browser(blocks.share_url or blocks.local_url or f"http://{at.host}:{blocks.server_port}")
    if blocking and not hasattr(sys, "ps1") and not sys.flags.interactive:
        if not debug:
            keep_short()
        gc.freeze()  # a process that only serves keeps its page and modules: no collection scans them again
        blocks.block_thread()
    return blocks


def _serves_tools(mcp: bool | None, *, login: bool) -> bool:
    """Return whether to serve MCP tools. Raises ``MissingExtraError`` if they are required but cannot be served."""
    found = find_spec("mcp") is not None
    if mcp and not found:
        raise MissingExtraError("gradio[mcp]", extra="mcp", purpose="an MCP server")
    if mcp is not None:
        return mcp
    wanted = os.environ.get("GRADIO_MCP_SERVER", "").lower()
    return found and not login and (wanted == "true" or (wanted != "false" and on_a_space()))


def _serve(
    blocks: gr.Blocks,
    at: Reach,
    port: int | None,
    agents: Session | None,
    first: FirstModels | None,
    *,
    sign_in: bool,
    **options: Any,
) -> None:
    """Start the server in its own thread, with the tools for ``agents`` that a session has, if any.

    Raises ``HfposembError`` if it cannot listen.
    """
    from .components.theme import css, theme
    from .limits import MOST_EVENTS, MOST_RUNNING, MOST_SESSIONS
    from .server.reach import listening

    blocks.queue(max_size=MOST_EVENTS, default_concurrency_limit=2, api_open=False)
    login = bool(options["auth"])
    kwargs = _served(options.pop("app_kwargs", {}), first, public=at.public, login=login, sign_in=sign_in)
    if agents is not None:
        from .server.mcp_server import McpServer

        tools = McpServer(agents)
        lifespan = partial(tools.lifespan, host=kwargs.get("lifespan"))
        kwargs |= {"routes": [*kwargs.get("routes", ()), *tools.routes], "lifespan": lifespan}
    options["app_kwargs"] = kwargs
    start = partial(
        blocks.launch,
        server_name=f"[{at.host}]" if ":" in at.host and not at.host.startswith("[") else at.host,
        share=at.share,
        theme=theme(),
        css=css(),
        state_session_capacity=MOST_SESSIONS,
        quiet=True,
        prevent_thread_lock=True,
        max_threads=MOST_RUNNING,
        **_FIXED,
        **options,
    )
    listening(start, at.host, port)
    blocks.config["mcp_server"] = agents is not None  # the page about the API lists the tools


def _running(blocks: gr.Blocks, *, asked: int | None, blocking: bool) -> str:
    """Return where the app runs, and the reason if the port is not the expected one."""
    from .server.reach import first_port

    first = first_port() if asked is None else blocks.server_port
    taken = "" if first == blocks.server_port else f", because port {first} is in use"
    return f"Running on {blocks.local_url}{taken}{'; press Ctrl-C to stop' if blocking else ''}."


_FIXED: dict[str, Any] = {
    "max_file_size": "1mb",
    "show_error": False,
    "run_history": False,
    "footer_links": ["api"],
    "enable_monitoring": False,
    "pwa": False,
    "ssr_mode": False,
    "mcp_server": False,  # ours is one of the routes
}
"""Options of ``gr.Blocks.launch`` with one value."""

_SET = {*_FIXED, "server_name", "server_port", "theme", "css", "max_threads", "state_session_capacity"}
"""Options of ``gr.Blocks.launch`` that ``launch`` sets."""


def _login(auth: Any, *, mcp: bool) -> Any:
    """Return the logins in Gradio's format; ``None`` if no password is required."""
    from .server.reach import AUTH, credentials

    auth = os.environ.get(AUTH) if auth is None else auth
    login = credentials(auth) if isinstance(auth, str) and auth else auth or None
    if login and mcp:
        raise InputError("an MCP server does not support a password; use either --auth or --mcp")
    return login


def _served(
    app_kwargs: Mapping[str, Any], first: FirstModels | None, *, public: bool, login: bool, sign_in: bool = False
) -> dict[str, Any]:
    """Return server options that deliver the page, behind the route allow-list in public mode."""
    from starlette.middleware import Middleware

    from .components.files import served_folders
    from .server.event_streams import EventStreams
    from .server.failed_requests import FailedRequests
    from .server.gradio_patches import mended_scripts
    from .server.ownership import Owned
    from .server.page_delivery import PageDelivery
    from .server.route_allowlist import Doors
    from .server.sign_in import SignedIn

    if public and os.environ.get("GRADIO_ALLOWED_PATHS"):
        raise InputError("GRADIO_ALLOWED_PATHS serves local files, which public mode does not allow; unset it")
    outermost = [Middleware(FailedRequests, public=public)]
    outermost += [Middleware(Doors, folders=served_folders(), login=login, sign_in=sign_in)] if public else []
    outermost += [Middleware(SignedIn), Middleware(Owned)] if sign_in else []
    delivery = Middleware(EventStreams), Middleware(PageDelivery, begins=first.address if first is not None else None)
    return {
        **app_kwargs,
        "middleware": [*outermost, *delivery, *app_kwargs.get("middleware", ())],
        "routes": [*mended_scripts(), *app_kwargs.get("routes", ())],
    }


if not TYPE_CHECKING:  # type checkers know their arguments
    launch, panel = answering(launch, __name__), answering(panel, __name__)
