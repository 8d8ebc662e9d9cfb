"""Predict with an exported model: python predict_onnx.py MODEL.onnx IMAGE…  (needs onnxruntime, numpy, pillow).

Prints path, class and probability, separated by tabs. A file that cannot be read is one line on stderr; the exit
code is then 1.
"""

import contextlib
import json
import sys
import warnings

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def view(path: str, size: int, side: int) -> np.ndarray:
    """The image as the model was trained to see it: its shorter side is `side`, then the centre is cut out.

    The result is RGB, (size, size, 3) uint8.
    """
    image = upright_rgb(path)
    shorter = min(image.size)
    image = image.resize([length * side // shorter for length in image.size], Image.Resampling.BICUBIC)
    left, top = (round((length - size) / 2) for length in image.size)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def upright_rgb(path: str) -> Image.Image:
    """The image in RGB, turned as the camera says, with white where it is transparent."""
    with Image.open(path) as image:
        image.load()
        with contextlib.suppress(Exception):  # damaged metadata is no reason against the pixels
            ImageOps.exif_transpose(image, in_place=True)
        if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
            bits = getattr(image, "tag_v2", {}).get(258, (16,))[0]  # a TIFF file may have fewer than 16
            grey = np.asarray(image, dtype=np.float32) * (255 / (2**bits - 1))
            return Image.fromarray(grey.round().clip(0, 255).astype(np.uint8)).convert("RGB")
        if image.mode in ("I", "F"):
            raise ValueError("grey of 32 bits has no agreed white; save it with 8 or 16 bits")
        if not image.has_transparency_data:
            return image.convert("RGB")
        layer, white = image.convert("RGBA"), Image.new("RGB", image.size, "white")
        white.paste(layer, mask=layer.getchannel("A"))
        return white


def main(model_path: str, *paths: str) -> int:
    """Print a line for each image; the exit code."""
    warnings.filterwarnings("ignore", module=r"PIL\.")  # odd metadata
    warnings.simplefilter("error", Image.DecompressionBombWarning)  # such a file is refused
    model = onnxruntime.InferenceSession(model_path)
    metadata = {key: json.loads(text) for key, text in model.get_modelmeta().custom_metadata_map.items()}
    size = metadata["image_size"]
    side = round(size / metadata["crop_share"])
    unreadable = 0
    for path in paths:
        try:
            pixels = view(path, size, side)
        except Exception as error:  # a damaged file can make a decoder raise anything
            print(f"{path!r} cannot be read as an image: {' '.join(str(error).split())}", file=sys.stderr)
            unreadable += 1
            continue
        place, probability = model.run(None, {"images": pixels[None]})
        name = metadata["unknown"] if place[0] < 0 else metadata["names"][place[0]]
        print(path, name, f"{probability[0]:.4f}", sep="\t")
    return 1 if unreadable else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 2 else __doc__)
