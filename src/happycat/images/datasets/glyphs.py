"""Characters in twelve typefaces, from the fonts that matplotlib brings: up to 601 classes, no download."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from happycat.base.errors import InputError
from happycat.images.pictures import ArrayPictures, Images

# All are in every typeface below. Characters that look like an earlier one up to size and place (F and E, o
# and O, Greek Α and Latin A) are left out. Only append: a class is known by its place in this list.
CHARACTERS = (
    "0123456789ABCDEGHIJKLMNOPQRSTUVWXYZabdefjkmnpqrtuyΓΔΞΣΦΨαβεζηικλμνξςστυφχωϗϘϚϝϞϟϠϡ϶ϷϸϺϻϽЂЉЊЋЏДЖИЛЧШЩ"
    "ЪЫЬЮЯлмцщъђћѣҐғҖҘҚҢҤҲҺӃӇӋӔӕӘӠӶ$+<=>~¢£¤¦©¬®°±×÷₦€₯₴₸₹←↑→↓↖↗↘↙↜↝↢↣↨↩↪↭↯↰↱↲↳↴↵↶↷↸↹↺↻↽⇁⇄⇅⇆⇇⇈⇉⇊⇋⇌⇐⇑⇒⇓⇖⇗⇘"
    "⇙⇚⇞⇤⇥⇫⇰⇱⇲⇳⇵⇶⇺⇿∂∃∇∈∋∏∓∗∘√∛∝∞∟∠∧∨∩∪∸∹∺∽≐≒≓≔≡≤≥⊂⊃⊆⊇⊎⊏⊐⊑⊒⊓⊔⊕⊘⊞⊠⊢⊣⊤⊥⋄⋅⌂⌐⌑⌘⌙⌠⌡⌨⏏␣□▣▤▭▮▯▱▲△▶▷►▻▼◀◁◄◆◇◊○◌◍◎◐"
    "◑◒◓◔◘◙◚◛◜◝◞◟◠◡◢◣◤◥◩◪◭◮◴◶◸◹◺◻◽◿☀☹☼☿♀♁♂♃♄♅♆♇♡♢♤♦♧♩♪♫♬♭♮♯⟶⩫⬅⬆⬈⬉⬔⬕⬖⬗⬘⬙!\"#%&'()*,-./:;?@[\\]¡§¶¿՜՞՟֊჻‖„‡•‣"
    "‰‱′‵‽⁋⟅⟆⸘⸟⸮ßøĦŒƁƇƈƊƋƑƔƕƝƢƣƤƦƪƫƳƴƶƸƺƼƾƿǁǂȜȡȤȴȵȸȹȻȾȿɀɁɐɒɕɖɗɘɚɝɞɟɠɤɦɧɨɫɭɮɯɰɱɲɳɷɸɹɺɻɼɾɿʁʂʃʆʇʊʍʎʐʑʓʗʘʚʝʞʡ"
    "ʢʣʤʦʧʨʩʪʫʬʭʮʯԲԳԴԵԶԷԸԹԺԻԽԾԿՀՁՃՄՆՇՊՌՎՐՒՔՖէթլխծկճմնչջփֆაბგდეზიკლოჟრსტუფქყჩცძწჭჯჰჱჲჳჴჵჶჸჹჺᴖᴗᴝᴞᴟᵷᵻᶅⱤⱮⱵⱷꞐꞑ"
    "Ɦ"
)
FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
)


def load(num_classes: int = 20, per_class: int = 60, seed: int = 0, size: int = 32) -> Images:
    """`per_class` train pictures of each of the first `num_classes` characters, a quarter as many for test.

    Each picture depends on its key alone, which holds the size, the seed, the character, the part and the
    number: more classes or more pictures never change the earlier ones.
    """
    for what, value, low, high in (
        ("num_classes", num_classes, 2, len(CHARACTERS)),
        ("per_class", per_class, 1, 100_000),
        ("seed", seed, 0, 2**32 - 1),
        ("size", size, 8, 512),
    ):
        if not low <= value <= high:
            raise InputError(f"glyphs: {what} is {value}; give a whole number from {low} to {high}")
    train, train_labels = _part("train", num_classes, per_class, seed, size)
    test, test_labels = _part("test", num_classes, max(1, per_class // 4), seed, size)
    base = num_classes // 2
    novel = num_classes - base
    return Images(
        name="glyphs",
        classes=tuple(CHARACTERS[:num_classes]),
        train=train,
        train_labels=train_labels,
        test=test,
        test_labels=test_labels,
        protocol={
            "base_classes": base,
            "stages": 5 if novel >= 10 else min(2, novel),
            "labelled_share": 0.8,
            "new_per_class": None,
            "old_per_class": None,
        },
        mirror=False,
    )


def _part(part: str, num_classes: int, each: int, seed: int, size: int) -> tuple[ArrayPictures, np.ndarray]:
    """The pictures of one part, class by class, and their labels, (num_classes · each,)."""
    pixels = np.empty((num_classes * each, size, size), dtype=np.uint8)
    keys: list[str] = []
    stream = ("train", "test").index(part)
    for label, character in enumerate(CHARACTERS[:num_classes]):
        for i in range(each):
            pixels[len(keys)] = _drawn(character, size, np.random.default_rng((seed, stream, label, i)))
            keys.append(f"{size}px/seed{seed}/U+{ord(character):04X}/{part}{i}")
    pictures = ArrayPictures(pixels)
    pictures.keys = tuple(keys)
    return pictures, np.repeat(np.arange(num_classes, dtype=np.int64), each)


def _drawn(character: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """The character in a random face, size, place, tilt and contrast with light noise, (size, size) uint8."""
    face = FACES[rng.integers(len(FACES))]
    height = round(size * rng.uniform(0.6, 0.9))
    font = _font(face, height)
    left, top, right, bottom = font.getbbox(character)
    room = 0.85 * size
    if max(right - left, bottom - top) > room:
        font = _font(face, max(1, int(height * room / max(right - left, bottom - top))))
        left, top, right, bottom = font.getbbox(character)
    x, y = size / 2 + rng.uniform(-0.06, 0.06, 2) * size
    ink = Image.new("L", (size, size))
    ImageDraw.Draw(ink).text((x - (left + right) / 2, y - (top + bottom) / 2), character, fill=255, font=font)
    ink = ink.rotate(rng.uniform(-10, 10), resample=Image.Resampling.BILINEAR)
    dark, light = rng.uniform(0, 80), rng.uniform(160, 255)
    grey = dark + (light - dark) / 255 * np.asarray(ink, dtype=np.float64) + rng.normal(0, 6, (size, size))
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8)


@lru_cache(maxsize=1024)
def _font(face: str, height: int) -> ImageFont.FreeTypeFont:
    """The typeface at a height in pixels."""
    from matplotlib import get_data_path  # slow to import

    path = Path(get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
    try:
        return ImageFont.truetype(str(path), height, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error}); install matplotlib again") from error
