"""Pictures: what is drawn is where, and in the colour, it should be."""

from __future__ import annotations

import colorsys
import os
import subprocess
import sys

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.errors import RunnelError, SceneError

pytest.importorskip("PIL")
from PIL import Image

from runnel.preview import PreviewOptions, coloring, colors, preview, render, render_frame
from runnel.preview.camera import directions, look_at_box
from runnel.preview.coloring import Legend
from runnel.preview.overlay import annotate
from runnel.preview.solids import gather, with_bodies

RED, BLUE = (0.85, 0.1, 0.1), (0.1, 0.3, 0.9)
SCENE = {
    "name": "test",
    "frames": [1, 3],
    "fluid": [{"name": "red", "color": RED}, {"name": "blue", "color": BLUE}],
}
BOX = ((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
SMALL = PreviewOptions(width=96, height=54, labels=False, bounds=BOX)
BARE = SMALL.replace(floor=False, shadows=False)


def balls(positions, phase=0, radius=0.2):
    positions = np.asarray(positions, dtype=np.float32).reshape(-1, 3)
    count = len(positions)
    return {
        "position": positions,
        "phase": np.broadcast_to(np.asarray(phase, np.uint32), count),
        "radius": np.full(count, radius, np.float32),
    }


def heap(count=400, seed=1):
    random = np.random.default_rng(seed)
    arrays = balls(random.random((count, 3)) * [2, 2, 0.8] - [1, 1, 1], radius=0.05)
    arrays["phase"] = random.integers(0, 2, count).astype(np.uint32)
    arrays["velocity"] = random.normal(size=(count, 3)).astype(np.float32)
    arrays["density"] = random.normal(1000, 10, count).astype(np.float32)
    return arrays


def hue(pixel):
    return colorsys.rgb_to_hsv(*(np.asarray(pixel, float) / 255))[0]


def near_hue(pixel, color, tolerance=0.06):
    apart = abs(hue(pixel) - colorsys.rgb_to_hsv(*color)[0])
    return min(apart, 1 - apart) < tolerance


def at(image, options, point=(0, 0, 0), scene=SCENE):
    """Pixel of the picture in which a point lies."""
    stage = render.set_stage(balls(point), scene, options, np.ones((1, 3)), 0)
    x, y, _ = render.place_camera(stage).project(np.array([point], float))
    return image[int(y[0] / options.quality), int(x[0] / options.quality)]


# ---- what is seen


@pytest.mark.parametrize(("phase", "color"), [(0, RED), (1, BLUE)])
@pytest.mark.parametrize("changes", [{}, {"ortho": True}, {"background": "light"}, {"quality": 1}])
def test_ball_at_the_centre_shows_its_fluids_colour(phase, color, changes):
    options = BARE.replace(**changes)
    image = render_frame(balls([0, 0, 0], phase), SCENE, options)
    assert image.shape == (54, 96, 3)
    assert image.dtype == np.uint8
    assert near_hue(at(image, options), color)
    empty = render_frame(balls(np.empty((0, 3))), SCENE, options)
    assert np.array_equal(image[0, 0], empty[0, 0])
    assert not np.array_equal(at(image, options), at(empty, options))


def test_ball_is_as_large_as_its_radius():
    """Area of the disc in an orthographic picture, within 3 %."""
    options = BARE.replace(ortho=True, width=256, height=256, radius_scale=1.0)
    image = render_frame(balls([0, 0, 0], radius=0.5), SCENE, options).astype(int)
    empty = render_frame(balls(np.empty((0, 3))), SCENE, options).astype(int)
    covered = (np.abs(image - empty).max(axis=2) > 8).sum()
    arrays, color = balls([0, 0, 0], radius=0.5), np.ones((1, 3))
    camera = render.place_camera(render.set_stage(arrays, SCENE, options, color, 0))
    scale = camera.scale / options.quality
    assert covered == pytest.approx(np.pi * (0.5 * scale) ** 2, rel=0.03)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_nearer_ball_hides_the_farther(order):
    """Whatever their order; azimuth 0 looks along +y."""
    arrays = balls(np.array([[0, -0.6, 0], [0, 0.6, 0]])[order], phase=np.array([0, 1])[order])
    front = BARE.replace(azimuth=0, elevation=0)
    assert near_hue(at(render_frame(arrays, SCENE, front), front), RED)
    back = front.replace(azimuth=180)
    assert near_hue(at(render_frame(arrays, SCENE, back), back), BLUE)


def test_equal_depths_go_to_the_same_particle_every_time():
    arrays = balls([[0, 0, 0]] * 2, phase=np.array([0, 1]))
    assert near_hue(at(render_frame(arrays, SCENE, BARE), BARE), RED)


@pytest.mark.parametrize(("up", "above"), [("z", [0, 0, 0.8]), ("y", [0, 0.8, 0])])
def test_up_is_up(up, above):
    image = render_frame(balls(above), {**SCENE, "up": up}, BARE.replace(elevation=5))
    rows = np.flatnonzero((image[:, 48, 0].astype(int) - image[:, 48, 2]) > 40)
    assert len(rows)
    assert rows.mean() < 20


@pytest.mark.parametrize(("up", "ignored"), [("z", 1), ("y", 2)])
def test_flat_scenes_are_seen_head_on(up, ignored):
    """x to the right and up upwards, undistorted, with any camera options."""
    points = np.zeros((3, 3))
    points[1, 0] = 0.8
    points[2, 3 - ignored] = 0.4
    arrays = balls(points, radius=0.05)
    scene = {**SCENE, "up": up, "dimensions": 2}
    image = render_frame(arrays, scene, BARE.replace(azimuth=77, width=200, height=200))
    red = (image[..., 0].astype(int) - image[..., 2]) > 60
    centres = [np.argwhere(red[:, 90:110])[:, 0], np.argwhere(red[:, 150:])[:, 0]]
    assert abs(centres[1].mean() - 100) < 2
    assert centres[0].min() < 75
    assert centres[0].max() < 110


def test_floor_darkens_below_a_ball():
    options = SMALL.replace(elevation=40, width=160, height=120, shadows=True)
    scene = {
        **SCENE,
        "collider": [{"shape": {"plane": {"point": [0, 0, -1], "normal": [0, 0, 1]}}}],
    }
    with_ball = render_frame(balls([0, 0, 0.2], radius=0.3), scene, options).astype(int)
    without = render_frame(balls(np.empty((0, 3))), scene, options).astype(int)
    change = (with_ball - without).sum(axis=2)
    assert (change < -60).sum() > 100
    unlit = render_frame(balls([0, 0, 0.2], radius=0.3), scene, options.replace(shadows=False))
    assert not np.array_equal(unlit, with_ball)


SOLIDS = {
    "sphere": {"sphere": {"center": [0, 0, 0], "radius": 0.5}},
    "box": {"box": {"min": [-0.5, -0.5, -0.5], "max": [0.5, 0.5, 0.5]}},
    "cylinder": {"cylinder": {"start": [0, 0, -0.5], "end": [0, 0, 0.5], "radius": 0.4}},
}


@pytest.mark.parametrize("kind", SOLIDS)
def test_obstacles_are_solid_and_hide_what_is_behind(kind):
    scene = {**SCENE, "collider": [{"shape": SOLIDS[kind]}]}
    options = BARE.replace(azimuth=20, elevation=10)
    hidden = balls([[0, 0, 0]], phase=1, radius=0.2)
    image = render_frame(hidden, scene, options)
    assert np.ptp(at(image, options).astype(int)) < 40  # gray, not blue
    bare = render_frame(hidden, scene, options.replace(colliders=False))
    assert near_hue(at(bare, options), BLUE)


@pytest.mark.parametrize("kind", SOLIDS)
def test_containers_are_lines_that_hide_nothing(kind):
    scene = {**SCENE, "collider": [{"shape": SOLIDS[kind], "mode": "inside"}]}
    options = BARE.replace(azimuth=20, elevation=10)
    arrays = balls([[0, 0, 0]], phase=1, radius=0.15)
    image = render_frame(arrays, scene, options)
    bare = render_frame(arrays, scene, options.replace(colliders=False))
    changed = np.abs(image.astype(int) - bare).max(axis=2) > 10
    assert 30 < changed.sum() < 0.25 * changed.size
    assert near_hue(at(image, options), BLUE, 0.08)


def test_colliders_follow_their_pose_and_keyframes():
    ball = {"sphere": {"center": [0, 0, 0], "radius": 0.1}}
    keys = [{"frame": 1, "position": [0, 0, 0]}, {"frame": 11, "position": [1, 0, 0]}]
    bounds = (np.zeros(3), np.ones(3))
    moved = gather({"collider": [{"shape": ball, "motion": keys}]}, 6, bounds)
    assert np.allclose(moved.solids[0][13:16], [0.5, 0, 0])
    turned = {"shape": {"box": {"min": [0, 0, 0], "max": [2, 1, 1]}}, "rotation": [0, 0, 90],
              "position": [5, 0, 0], "scale": 2}  # fmt: skip
    props = gather({"collider": [turned]}, 1, bounds)
    assert np.allclose(props.low[0], [3, 0, 0])
    assert np.allclose(props.high[0], [5, 4, 2])


def test_slanted_planes_and_closed_domains_are_drawn_as_lines():
    scene = {
        "collider": [{"shape": {"plane": {"normal": [1, 0, 0]}}}],
        "domain": {"min": [0, 0, 0], "max": [1, 1, 1], "mode": "close"},
    }
    props = gather(scene, 1, (np.zeros(3), np.ones(3)))
    assert [len(lines) for lines in props.lines] == [18, 12]
    assert props.floor == 0.0


# ---- repeatable, and every option


def test_pictures_are_the_same_to_the_byte_at_any_thread_count(monkeypatch):
    first = render_frame(heap(), SCENE, SMALL.replace(labels=True))
    monkeypatch.setattr(render.os, "cpu_count", lambda: 7)
    assert np.array_equal(render_frame(heap(), SCENE, SMALL.replace(labels=True)), first)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 31, "height": 77},
        {"color": "speed"},
        {"color": "density", "range": (990, 1010)},
        {"color": "velocity", "colormap": "gray"},
        {"azimuth": 100},
        {"elevation": -20},
        {"elevation": 89},
        {"zoom": 2.5},
        {"fov": 60},
        {"ortho": True},
        {"bounds": ((-2, -2, -2), (2, 2, 2))},
        {"background": "light"},
        {"floor": False},
        {"shadows": False},
        {"labels": True},
        {"smooth": 0.0},
        {"smooth": 1.0},
        {"radius_scale": 2.0},
        {"quality": 1},
        {"quality": 3},
    ],
)
def test_every_option_changes_the_picture(changes):
    image = render_frame(heap(), SCENE, SMALL.replace(**changes))
    assert image.shape == (changes.get("height", 54), changes.get("width", 96), 3)
    assert image.std() > 5
    if image.shape == (54, 96, 3):
        assert not np.array_equal(image, render_frame(heap(), SCENE, SMALL))


@pytest.mark.parametrize("name", colors.COLORMAPS)
def test_colormaps_change_evenly_and_their_lightness_has_no_bumps(name):
    lab = colors.to_oklab(colors.table(name))
    steps = np.linalg.norm(np.diff(lab, axis=0), axis=1)
    assert steps.max() < 4 * np.median(steps) + 1e-3
    lightness = lab[:, 0] if name != "balance" else lab[:128, 0]
    assert (np.diff(lightness) > -1e-3).all()
    assert np.ptp(lightness) > 0.4


def test_srgb_and_oklab_are_inverted_exactly():
    values = np.random.default_rng(0).random((50, 3))
    assert np.allclose(colors.to_srgb(colors.to_linear(values)), values)
    assert np.allclose(colors.from_oklab(colors.to_oklab(values)), values, atol=1e-6)


def test_high_values_get_the_upper_end_of_the_colormap():
    arrays = {**heap(2), "heat": np.array([0.0, 1.0])}
    options = PreviewOptions(color="heat", range=(0, 1), colormap="gray")
    rgb, legend = coloring.particle_colors(arrays, SCENE, options)
    assert rgb[0].max() < 0.05 < 0.8 < rgb[1].min()
    assert (legend.low, legend.high, legend.title) == (0, 1, "heat")


def test_a_few_strays_do_not_set_the_range():
    values = np.concatenate([np.linspace(0, 1, 1000), [500.0, np.nan]])
    low, high = coloring.value_range([values])
    assert low == 0
    assert 0.9 < high < 1.1
    assert coloring.value_range([]) == (0.0, 1.0)
    constant = coloring.value_range([np.full(5, 3.0)])
    assert constant[0] < constant[1]


def test_colours_come_from_scene_then_preset_then_palette():
    scene = {
        "fluid": [{"name": "a", "color": RED}, {"name": "b", "preset": "honey"}, {"name": "c"}]
    }
    from runnel.presets import PALETTE, PRESETS

    found = dict(coloring.fluid_colors(scene))
    assert found == {"a": RED, "b": PRESETS["honey"].color, "c": PALETTE[2]}


@pytest.mark.parametrize("ortho", [True, False])
@pytest.mark.parametrize("angles", [(0, 0), (30, 20), (200, -50), (90, 89)])
@pytest.mark.parametrize("size", [(1280, 720), (300, 900)])
def test_camera_shows_the_whole_box_and_not_much_more(ortho, angles, size):
    low, high = np.array([-3.0, 1, 0]), np.array([5.0, 2, 0.5])
    camera = look_at_box(low, high, directions(*angles, "z"), size, ortho=ortho)
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    x, y, depth = camera.project(low + corners * (high - low))
    assert depth.min() > 0
    assert x.min() > 0
    assert x.max() < size[0]
    assert y.min() > 0
    assert y.max() < size[1]
    assert max(np.ptp(x) / size[0], np.ptp(y) / size[1]) > 0.55


# ---- wrong input


def test_empty_frames_work():
    options = PreviewOptions(width=64, height=36)
    container = {"collider": [{"shape": SOLIDS["box"], "mode": "inside"}]}
    for scene in ({}, SCENE, container):
        for arrays in ({"position": np.empty((0, 3), np.float32)}, balls(np.empty((0, 3)))):
            assert render_frame(arrays, scene, options).shape == (36, 64, 3)


def test_positions_that_are_not_finite_are_named():
    arrays = heap()
    arrays["position"][17, 1] = np.nan
    with pytest.raises(RunnelError, match="particle 17 is"):
        render_frame(arrays, SCENE, SMALL)
    arrays["id"] = np.arange(400) + 1000
    with pytest.raises(RunnelError, match=r"particle 17 \(id 1017\)"):
        render_frame(arrays, SCENE, SMALL)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "no channel 'position'"),
        ({"position": np.zeros((3, 2))}, "shape"),
        ({"position": np.zeros((3, 3)), "radius": np.zeros(3)}, "radius"),
        ({"position": np.zeros((3, 3)), "radius": np.ones(2)}, "radius"),
    ],
)
def test_channels_that_cannot_be_drawn_are_refused(arrays, words):
    with pytest.raises(RunnelError, match=words):
        render_frame(arrays, SCENE, SMALL)


def test_a_missing_colour_channel_is_named_with_those_there():
    with pytest.raises(RunnelError, match=r"'heat'.*density"):
        render_frame(heap(), SCENE, SMALL.replace(color="heat"))


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 0},
        {"height": 10**6},
        {"zoom": 0},
        {"zoom": float("nan")},
        {"quality": 9},
        {"background": "pink"},
        {"movie": "avi"},
        {"range": (1.0, 1.0)},
    ],
)
def test_wrong_options_name_the_key(changes):
    with pytest.raises(SceneError, match=f"preview.{next(iter(changes))}"):
        PreviewOptions(**changes)


def test_wrong_colormap_names_those_allowed():
    with pytest.raises(SceneError, match="ember"):
        render_frame(heap(), SCENE, SMALL.replace(color="speed", colormap="jet"))


def test_far_and_huge_and_behind_the_camera_are_harmless():
    positions = [[0, 0, 0], [1e6, 0, 0], [0, -1e6, 0], [0, 0, 1e6], [0, -4.5, 0]]
    arrays = balls(positions, radius=0.2)
    arrays["radius"][1] = 1e5
    image = render_frame(arrays, SCENE, SMALL)
    assert image.std() > 3


# ---- whole caches


@pytest.fixture
def cache(tmp_path):
    cache = Cache.create(tmp_path / "cache", SCENE, fps=24)
    for frame in (1, 2, 3):
        cache.write(frame, heap(seed=frame))
    return cache


TINY = PreviewOptions(width=64, height=36, quality=1)


def test_preview_writes_frames_sheet_and_movie(cache):
    calls = []
    files = preview(cache.directory, options=TINY.replace(movie="gif"),
                    on_frame=lambda done, total: calls.append((done, total)))  # fmt: skip
    names = [path.name for path in files]
    assert names == [*(f"frame_00000{n}.png" for n in (1, 2, 3)), "contact_sheet.png",
                     "preview.gif"]  # fmt: skip
    assert all(path.parent == cache.directory / "preview" for path in files)
    assert calls == [(1, 3), (2, 3), (3, 3)]
    with Image.open(files[0]) as image:
        assert image.size == (64, 36)
    with Image.open(files[-1]) as movie:
        assert movie.n_frames == 3
    assert not list(cache.directory.rglob("*.tmp*"))
    assert cache.verify() == []


@pytest.mark.parametrize(("kind", "name"), [("webp", "preview.webp"), ("apng", "preview.png")])
def test_other_movies(cache, tmp_path, kind, name):
    files = preview(cache.directory, tmp_path / "out", TINY.replace(movie=kind, sheet=0))
    assert files[-1] == tmp_path / "out" / name
    with Image.open(files[-1]) as movie:
        assert movie.n_frames == 3


def test_mp4_needs_its_package_and_says_so(cache):
    options = TINY.replace(movie="mp4")
    try:
        import imageio_ffmpeg  # noqa: F401 - only whether it is there
    except ImportError:
        with pytest.raises(RunnelError, match="pip install imageio-ffmpeg"):
            preview(cache.directory, options=options)
    else:
        assert preview(cache.directory, options=options)[-1].stat().st_size > 0


def test_preview_is_the_same_to_the_byte_and_drops_stale_frames(cache):
    first = {path.name: path.read_bytes() for path in preview(cache.directory, options=TINY)}
    stale = cache.directory / "preview" / "frame_000099.png"
    stale.write_bytes(b"old")
    again = {path.name: path.read_bytes() for path in preview(cache.directory, options=TINY)}
    assert first == again
    assert not stale.exists()


def test_one_view_and_one_range_for_all_frames(cache):
    """A frame looks the same alone or among others only if the cache decides."""
    from runnel.preview.movie import settle

    options = settle(cache, cache.frames(), TINY.replace(color="speed"))
    assert options.bounds is not None
    assert options.range is not None
    arrays = [cache.read(frame) for frame in cache.frames()]
    for frame in arrays:
        inside = (frame["position"] > options.bounds[0]) & (frame["position"] < options.bounds[1])
        assert inside.all()


def test_chosen_frames_only(cache):
    files = preview(cache.directory, options=TINY.replace(movie="none", sheet=0), frames=[2])
    assert [path.name for path in files] == ["frame_000002.png"]
    with pytest.raises(RunnelError, match="frame 9"):
        preview(cache.directory, options=TINY, frames=[9])


def test_a_cache_without_frames_or_with_nan_is_explained(tmp_path):
    empty = Cache.create(tmp_path, SCENE)
    with pytest.raises(RunnelError, match="no frames"):
        preview(tmp_path)
    arrays = heap()
    arrays["position"][3] = np.inf
    empty.write(1, arrays)
    with pytest.raises(RunnelError, match="particle 3"):
        preview(tmp_path)


def test_channels_not_in_the_cache_are_named(cache):
    with pytest.raises(RunnelError, match=r"'heat'.*density"):
        preview(cache.directory, options=TINY.replace(color="heat"))


def test_importing_the_package_loads_neither_numba_nor_pillow():
    code = (
        "import sys, runnel.preview, runnel.cache, runnel.report, runnel.surface, runnel.progress\n"
        "heavy = {'numba', 'PIL', 'zstandard', 'pysplashsurf'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_kernels_compile_where_nothing_can_be_kept():
    """No writable folder for numba's cache: slower, but it works."""
    code = (
        "import numba.core.caching as c\n"
        "assert c.CacheImpl._locator_classes\n"
        "c.CacheImpl._locator_classes = []\n"
        "from runnel.preview.screen import slope\n"
        "assert slope(0.0, 1.0, 2.0, 9.0) == 1.0\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_names_in_other_letters_are_legible():
    """Pillow's own font draws one and the same box for what it does not have."""
    fonts = pytest.importorskip("PIL.ImageFont")
    try:
        fonts.truetype("DejaVuSans.ttf", 20)
    except OSError:
        pytest.skip("no font with other letters here")
    blank = np.zeros((60, 400, 3), np.uint8)

    def shown(name):
        legend = Legend(names=((name, (1.0, 1.0, 1.0)), ("oil", (1.0, 0.5, 0.0))))
        return annotate(blank, "1", legend, "dark", size=20)

    assert not np.array_equal(shown("\u00fc"), shown("\u00f6"))
    assert not np.array_equal(shown("\u0416"), shown("\u042e"))


@pytest.mark.parametrize("turn", [[0.99, 0.0, 1e308, 0.0], [float("nan")] * 4, [1e20, 0, 0, 1.0]])
def test_a_body_that_is_nowhere_is_refused(tmp_path, turn):
    """Its place comes from a file: with such numbers a picture was never finished."""
    ball = {
        "name": "cork",
        "body": "rigid",
        "shape": {"sphere": {"center": [0, 0, 1], "radius": 0.2}},
    }
    body = {"collider": 0, "name": "cork", "rotation": turn, "translation": [0, 0, 0]}
    scene = with_bodies({"collider": [ball]}, {"bodies": [body]}, {})
    with pytest.raises(RunnelError, match="'cork' has no place"):
        gather(scene, 1.0, (np.zeros(3), np.ones(3)))
