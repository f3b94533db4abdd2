"""Makes models that other programs store in ways of their own, right and wrong: data in other files, behind links, and
declared types and shapes. For scripts/fuzz_operators.py."""

import os

import numpy as np
import onnx
from element_types import ONNX_TYPES
from onnx import helper
from random_case import Case


def sum_of_two(rng):
    """Returns x + w, whose w shall lie in another file."""
    case, shape = Case(13), [rng.randint(1, 4), rng.randint(1, 9)]
    whole = lambda: np.array([rng.randint(-99, 99) for _ in range(shape[0] * shape[1])], np.float32).reshape(shape)
    x, w = whole(), whole()
    case.operand("x", x, False)
    case.operand("w", w, True)
    case.nodes.append(helper.make_node("Add", rng.sample(["x", "w"], 2), ["y"]))
    case.outputs.append(("y", x + w))
    return case


def place(path, data, link_from=None):
    """Writes a file. With link_from, that path becomes a relative link to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if link_from:
        link_from.parent.mkdir(parents=True, exist_ok=True)
        link_from.symlink_to(os.path.relpath(path, link_from.parent))


def digest(rng):
    return f"{rng.getrandbits(128):032x}"


class Stored:
    """A model whose weight lies in another file: beside it, below it, in the Hugging Face cache, or where it may not."""

    def __init__(self, rng):
        self.rng, self.case = rng, sum_of_two(rng)
        self.layout = rng.choice(["beside", "dots", "cache", "cache", "cache", "link below", "outside", "link outside"])

    def save(self, folder):
        rng, w = self.rng, self.case.initializers[0][1]
        name, lead = rng.choice(["model.onnx_data", "w.bin", "a b.data"]), bytes(rng.randint(0, 9))
        model, place_of_model = self.case.model(), folder / "model.onnx"
        location, data_at, link, real_model = name, folder / name, None, place_of_model
        if self.layout == "dots":
            location = rng.choice([f"./{name}", f"./sub/../{name}", f"sub/./..//{name}"])
            (folder / "sub").mkdir(parents=True)
        elif self.layout == "link below":
            data_at, link = folder / "sub" / name, folder / name
        elif self.layout == "cache":  # models--NAME/snapshots/REVISION/[FOLDER/]model.onnx -> models--NAME/blobs/DIGEST
            hub = folder / f"models--{rng.choice(['acme', 'o-p'])}--demo"
            place_of_model = hub / "snapshots" / digest(rng) / rng.choice(["", "onnx"]) / "model.onnx"
            real_model, data_at, link = hub / "blobs" / digest(rng), hub / "blobs" / digest(rng), place_of_model.parent / name
        elif self.layout == "outside":
            data_at = folder.parent / "beside" / folder.name / name
            location = rng.choice([f"../beside/{folder.name}/{name}", str(data_at)])
        elif self.layout == "link outside":
            data_at, link = folder.parent / "beside" / folder.name / name, folder / name
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entries = {"location": location, "offset": len(lead), "length": w.nbytes}
        for key in ["location", *rng.sample(["offset", "length"], 2)]:
            tensor.external_data.add(key=key, value=str(entries[key]))
        place(real_model, model.SerializeToString(), place_of_model if real_model != place_of_model else None)
        place(data_at, lead + w.tobytes(), link)
        self.case.save_data(place_of_model.parent)


def links(rng):
    """Returns a model with data in another file, and a part of the refusal, or None if the model is right."""
    stored = Stored(rng)
    return stored, "outside the model's folder" if "outside" in stored.layout else None


class Declared:
    """A model of one node whose output, or whose input with an initializer, is declared with its type and shape, or with
    others."""

    def __init__(self, rng):
        self.case, kind = Case(13), rng.choice([np.float32, np.float64, np.int32, np.int64])
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
        x = np.array(rng.choices(range(-9, 9), k=int(np.prod(shape))), kind).reshape(shape)
        self.initialized = rng.random() < 0.4  # x is an initializer, which the graph also declares as an input
        self.case.operand("x", x, self.initialized)
        op, y = rng.choice([("Neg", -x), ("Abs", abs(x)), ("Identity", x), ("Transpose", x.transpose())])
        self.case.nodes.append(helper.make_node(op, ["x"], ["y"]))
        self.case.outputs.append(("y", y))
        self.type = rng.choice([None, *(t for k, t in ONNX_TYPES.items() if k != y.dtype and k.kind in "fiub")])
        self.shape = rng.choice([None, shape + [1], [d + 1 for d in shape], shape[1:]]) if self.initialized else None
        self.x = x

    def save(self, folder):
        folder.mkdir(parents=True)
        model = self.case.model()
        if self.initialized:
            model.graph.input.append(helper.make_tensor_value_info(
                "x", self.type or ONNX_TYPES[self.x.dtype], self.x.shape if self.shape is None else self.shape))
        elif self.type is not None:
            model.graph.output[0].type.tensor_type.elem_type = self.type
        onnx.save(model, folder / "model.onnx")
        self.case.save_data(folder)


def declared(rng):
    """Returns a model with a declared type, and a part of the refusal, or None if the type is right."""
    made = Declared(rng)
    if made.type is None and made.shape is None:
        return made, None
    return made, "tensor 'x' is declared " if made.initialized else "tensor 'y' is declared "
