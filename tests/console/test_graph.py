"""The drawing of components: folded groups, members of Scalers, submodules, what is open by default, budgets."""

import gzip
import itertools
from itertools import combinations

import pytest

from launchbay.console.assets import Glyph
from launchbay.console.graph import (
    ComponentState,
    Drawing,
    Module,
    Topology,
    draw,
    kept_open,
    parents,
    problems,
    read_topology,
    worst,
)
from launchbay.console.rendering import templates
from launchbay.manifest.graph import CompiledManifest
from launchbay.pages.components import Components, GraphQuery, live_events, shown_graph
from tests.support.manifests import compiled, many_components

SCALED = """
application:
  components:
    store:
      type: cobalt.common.Constants
      interfaces: {db: {host: publish-signal(string)}}
      configuration: {configuration.values: {db.host: db.example}}
    cluster:
      type: composite.Scaler
      configuration: {configuration.quantity: 2}
      components:
        web:
          type: workflow.Instance
          interfaces: {db: {host: consume-signal(string)}}
    box:
      components:
        inner: {type: workflow.Instance}
  bindings: [[cluster.web, store]]
"""


_numbers = itertools.count()


def topology(manifest: CompiledManifest, scales: tuple[tuple[str, int], ...] = ()) -> Topology:
    return read_topology(Module(f"application {next(_numbers)}", 1, manifest, scales))


def many(number: int, group_size: int = 0) -> Topology:
    return topology(compiled(many_components(number, group_size)))


def drawn(found: Topology, opened: frozenset[str] | None = None) -> Drawing:
    return draw(found, parents(found, "composite"), opened)


def assert_apart(drawing: Drawing) -> None:
    for one, other in combinations(drawing.nodes, 2):
        assert abs(one.at.x - other.at.x) >= drawing.node.width or abs(one.at.y - other.at.y) >= drawing.node.height, (
            one.id,
            other.id,
        )
    for group in drawing.groups:
        for node in drawing.nodes:
            is_inside = set(node.components) <= set(group.components)
            right, bottom = group.at.x + group.size.width, group.at.y + group.size.height
            across = group.at.x - drawing.node.width < node.at.x < right
            down = group.at.y - drawing.node.height < node.at.y < bottom
            assert is_inside == (across and down), (group.id, node.id)


@pytest.mark.parametrize(("number", "group_size"), [(3, 0), (30, 0), (30, 7), (300, 20), (300, 0)])
def test_nothing_covers_anything(number: int, group_size: int) -> None:
    found = many(number, group_size)
    folded, whole = drawn(found, frozenset()), drawn(found)
    for drawing in (folded, whole):
        assert_apart(drawing)
        assert sum(len(node.components) for node in drawing.nodes) == number
    assert len(whole.nodes) == number
    assert len(folded.nodes) == (-(-number // group_size) if group_size else number)


def test_a_drawing_is_made_once() -> None:
    found = many(30, 7)
    assert drawn(found, frozenset({"group-1"})) is drawn(found, frozenset({"group-1"}))


@pytest.mark.slow
def test_a_thousand_components_are_drawn_folded() -> None:
    manifest = compiled(many_components(950, 50))
    found = topology(manifest)
    states = dict.fromkeys(found.components, ComponentState(Glyph.OK, "Running"))
    states["group-3.part-160"] = ComponentState(Glyph.FAIL, "Failed")
    opened = kept_open(found, parents(found, "composite"), states)
    assert opened == frozenset({"group-3"})
    drawing = drawn(found, opened)
    assert_apart(drawing)
    assert len(drawing.nodes) == 18 + 50


def test_a_group_stands_for_its_components_and_shows_the_worst() -> None:
    drawing = drawn(many(30, 10), frozenset({"group-0"}))
    assert [node.id for node in drawing.nodes if node.is_group] == ["group-1", "group-2"]
    assert {(line.provider, line.consumer) for line in drawing.lines} >= {("group-1", "group-2")}
    assert all(line.provider != line.consumer for line in drawing.lines)
    states = [ComponentState(kind) for kind in (Glyph.OK, Glyph.QUEUED, Glyph.BUSY, Glyph.WAIT)]
    assert worst(states).kind is Glyph.WAIT
    assert worst([]).kind is Glyph.QUEUED


def test_a_scaler_is_a_group_of_its_members() -> None:
    found = topology(compiled(SCALED), (("cluster", 3),))
    members = [f"cluster.web[{number}]" for number in range(3)]
    assert [each for each in found.components if each.startswith("cluster.")] == members
    whole, folded = drawn(found), drawn(found, frozenset())
    [group] = whole.groups
    assert (group.id, set(group.components)) == ("cluster", {"cluster", *members})
    assert {(line.provider, line.consumer) for line in whole.lines} == {("store", member) for member in members}
    [line] = folded.lines
    assert (line.provider, line.consumer, line.label) == ("store", "cluster", "db")


def test_a_scaler_without_a_scale_has_as_many_members_as_configured() -> None:
    assert [each for each in topology(compiled(SCALED)).components if "[" in each] == [
        "cluster.web[0]",
        "cluster.web[1]",
    ]


def test_a_composite_around_one_component_is_no_group() -> None:
    drawing = drawn(topology(compiled(SCALED)))
    assert "box.inner" in {node.name for node in drawing.nodes}


def test_a_submodule_opens_to_the_components_of_its_instance() -> None:
    outer, inner = compiled(many_components(3)), compiled(many_components(7))
    found = read_topology(Module("outer", 1, outer, submodules=(("part-1", Module("inner", 1, inner)),)))
    assert "part-1/part-6" in found.components
    drawing = drawn(found)
    [group] = drawing.groups
    assert (group.id, len(group.components)) == ("part-1", 8)
    assert "part-6" in {node.name for node in drawing.nodes}
    assert_apart(drawing)
    assert "part-1" in {node.id for node in drawn(found, frozenset()).nodes}


def test_only_problems_leaves_them_and_their_neighbors() -> None:
    found = many(300, 20)
    states = dict.fromkeys(found.components, ComponentState(Glyph.OK, "Running"))
    states["group-2.part-50"] = ComponentState(Glyph.FAIL, "Failed")
    shown = problems(found, states)
    assert "group-2.part-50" in shown
    assert shown == found.neighborhood(["group-2.part-50"])
    assert problems(found, dict.fromkeys(found.components, ComponentState(Glyph.OK))) == frozenset()


def components(number: int, group_size: int = 0) -> Components:
    found = many(number, group_size)
    kinds = [ComponentState(Glyph.OK, "Running"), ComponentState(Glyph.BUSY, "In progress", 40, "rollout")]
    return Components(found, {each: kinds[place % 2] for place, each in enumerate(found.components)}, {})


@pytest.mark.parametrize(("number", "most_bytes"), [(30, 8_000), (300, 30_000)])
async def test_a_graph_fits_its_budget(number: int, most_bytes: int) -> None:
    """A page may have 12 KB, compressed; the graph of 30 components has two thirds of them."""
    graph = await shown_graph(components(number), GraphQuery(), "/console/instances/x/components")
    text = templates.get_template("graph.html").render(graph=graph)
    assert len(gzip.compress(text.encode())) <= most_bytes
    assert text.count("<") / 2 <= 5_000
    assert "style=" not in text


async def test_more_than_four_hundred_boxes_give_way_to_a_neighborhood() -> None:
    found = components(500)
    graph = await shown_graph(found, GraphQuery(focus="part-250"), "/p")
    assert graph.is_cut
    assert {each.node.id for each in graph.nodes} == found.topology.neighborhood(["part-250"])


async def test_a_search_opens_the_groups_of_what_it_finds() -> None:
    graph = await shown_graph(components(300, 20), GraphQuery(search="PART-77"), "/p")
    assert [each.node.name for each in graph.nodes if "hit" in each.css] == ["part-77"]
    assert [each.group.id for each in graph.groups] == ["group-3"]


@pytest.mark.parametrize(("grouping", "groups"), [("type", {"type:Workflow"}), ("none", set())])
async def test_components_are_grouped_as_asked(grouping: str, groups: set[str]) -> None:
    query = GraphQuery(grouping=grouping, opened=frozenset())  # type: ignore[arg-type]  # of a parametrization
    graph = await shown_graph(components(50, 10), query, "/p")
    assert {each.node.id for each in graph.nodes if each.node.is_group} == groups


async def test_links_fold_and_unfold_and_keep_the_rest() -> None:
    graph = await shown_graph(components(50, 10), GraphQuery(opened=frozenset({"group-1"}), only_problems=False), "/p")
    links = {each.node.id: each.href for each in graph.nodes}
    assert links["group-2"] == "/p?open=group-1,group-2"
    assert links["group-1.part-12"] == "/p?open=group-1&focus=group-1.part-12"
    assert [each.href for each in graph.groups] == ["/p?open=none"]


async def test_updates_have_what_changed_and_are_small() -> None:
    found = components(30)
    graph = await shown_graph(found, GraphQuery(), "/p")
    sent: dict[str, list[object]] = {}
    first = live_events(graph, sent)
    assert first
    assert all(len(text) <= 2_500 for text in first)
    assert live_events(graph, sent) == []
    states = {**found.states, "part-3": ComponentState(Glyph.FAIL, "Failed", note="act failed")}
    [text] = live_events(await shown_graph(found._replace(states=states), GraphQuery(), "/p"), sent)
    assert '"part-3":["fail","fail","Failed","act failed",[]]' in text
