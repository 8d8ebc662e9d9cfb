"""Predict with an exported model: python predict_onnx.py MODEL.onnx IMAGE…  (needs onnxruntime, numpy, pillow)."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model = onnxruntime.InferenceSession(sys.argv[1])
about = {key: json.loads(text) for key, text in model.get_modelmeta().custom_metadata_map.items()}
size = about["image_size"]
side = round(size / about["crop_share"])

for path in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    shorter = min(image.size)
    image = image.resize([length * side // shorter for length in image.size], Image.Resampling.BICUBIC)
    left, top = (round((length - size) / 2) for length in image.size)
    view = np.asarray(image.crop((left, top, left + size, top + size)))
    place, probability = model.run(None, {"images": view[None]})
    print(path, "unknown" if place[0] < 0 else about["names"][place[0]], f"{probability[0]:.4f}", sep="\t")
