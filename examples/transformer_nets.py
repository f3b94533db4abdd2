"""Current networks for make_nets.py, with the operators that exporters emit: language models, Whisper, vision
transformers, a diffusion UNet, detection heads, recurrent nets. They are small, but have all parts of the originals.
The graph computes positions, masks and shapes, as in exported models.
"""

import numpy as np


class Parts:
    """Layers that are added to a builder (make_nets.Net)."""

    def __init__(self, b):
        self.b, self.count = b, 0

    def node(self, op, inputs, **attributes):
        self.count += 1
        return self.b.node(op, inputs, f"{op.lower()}_{self.count}", **attributes)

    def weight(self, shape, deviation, mean=0.0):
        self.count += 1
        return self.b.weight(f"weight_{self.count}", self.b.rng.normal(mean, deviation, shape))

    def integers(self, numbers):
        return self.b.integers("integers_" + "_".join(map(str, np.ravel(numbers))) + f"_{np.ndim(numbers)}", numbers)

    def shape(self, x):
        return list(self.b.values[x].shape)

    def add(self, x, y):
        return self.node("Add", [x, y])

    def mul(self, x, y):
        return self.node("Mul", [x, y])

    def scaled(self, x, number):
        return self.mul(x, self.b.scalar(number))

    def reshaped(self, x, shape):
        return self.node("Reshape", [x, self.integers(shape)])

    def transposed(self, x, *perm):
        return self.node("Transpose", [x], perm=list(perm))

    def linear(self, x, features, bias=True, gain=1.0):
        fan_in = self.shape(x)[-1]
        y = self.node("MatMul", [x, self.weight((fan_in, features), np.sqrt(gain / fan_in))])
        return self.add(y, self.weight((features,), 0.02)) if bias else y

    def conv(self, x, channels, kernel, stride=1, pad=0):
        spatial = len(self.shape(x)) - 2
        fan_in = self.shape(x)[1] * kernel**spatial
        w = self.weight((channels, self.shape(x)[1]) + (kernel,) * spatial, np.sqrt(1 / fan_in))
        return self.node("Conv", [x, w, self.weight((channels,), 0.02)], kernel_shape=[kernel] * spatial,
                         strides=[stride] * spatial, pads=[pad] * 2 * spatial)

    def layer_norm(self, x):
        mean = self.node("ReduceMean", [x], axes=[-1])
        centered = self.node("Sub", [x, mean])
        variance = self.node("ReduceMean", [self.node("Pow", [centered, self.b.scalar(2)])], axes=[-1])
        deviation = self.node("Sqrt", [self.add(variance, self.b.scalar(1e-5))])
        width = self.shape(x)[-1:]
        unit = self.node("Div", [centered, deviation])
        return self.add(self.mul(unit, self.weight(width, 0.1, 1.0)), self.weight(width, 0.1))

    def rms_norm(self, x):
        mean = self.node("ReduceMean", [self.node("Pow", [x, self.b.scalar(2)])], axes=[-1])
        factor = self.node("Reciprocal", [self.node("Sqrt", [self.add(mean, self.b.scalar(1e-6))])])
        return self.mul(self.weight(self.shape(x)[-1:], 0.1, 1.0), self.mul(x, factor))

    def group_norm(self, x, groups):
        """Adds a group normalization as torch exports it: an InstanceNormalization of the groups."""
        n, c, h, w = self.shape(x)
        y = self.node("InstanceNormalization", [self.reshaped(x, [n, groups, -1]), self.ones(groups), self.zeros(groups)])
        y = self.node("Reshape", [y, self.node("Shape", [x])])
        return self.add(self.mul(y, self.weight((c, 1, 1), 0.1, 1.0)), self.weight((c, 1, 1), 0.1))

    def ones(self, n):
        return self.b.weight(f"ones_{self.count}", np.ones(n))

    def zeros(self, n):
        return self.b.weight(f"zeros_{self.count}", np.zeros(n))

    def gelu(self, x):
        erf = self.node("Erf", [self.node("Div", [x, self.b.scalar(np.sqrt(2))])])
        return self.scaled(self.mul(x, self.add(erf, self.b.scalar(1))), 0.5)

    def gelu_tanh(self, x):
        cube = self.node("Pow", [x, self.b.scalar(3)])
        inner = self.scaled(self.add(x, self.scaled(cube, 0.044715)), np.sqrt(2 / np.pi))
        return self.mul(self.scaled(x, 0.5), self.add(self.node("Tanh", [inner]), self.b.scalar(1)))

    def silu(self, x):
        return self.mul(x, self.node("Sigmoid", [x]))

    def split_heads(self, x, heads):
        n, tokens, width = self.shape(x)
        return self.transposed(self.reshaped(x, [n, tokens, heads, width // heads]), 0, 2, 1, 3)

    def join_heads(self, x):
        n, heads, tokens, width = self.shape(x)
        return self.reshaped(self.transposed(x, 0, 2, 1, 3), [n, tokens, heads * width])

    def attention(self, q, k, v, mask=None):
        scores = self.node("MatMul", [q, self.transposed(k, 0, 1, 3, 2)])
        scores = self.node("Div", [scores, self.b.scalar(np.sqrt(self.shape(q)[-1]))])
        if mask:
            scores = self.add(scores, mask)
        return self.join_heads(self.node("MatMul", [self.node("Softmax", [scores], axis=-1), v]))

    def self_attention(self, x, heads, mask=None):
        q, k, v = (self.split_heads(self.linear(x, self.shape(x)[-1]), heads) for _ in range(3))
        return self.linear(self.attention(q, k, v, mask), self.shape(x)[-1])

    def cross_attention(self, x, memory, heads):
        q = self.split_heads(self.linear(x, self.shape(x)[-1]), heads)
        k, v = (self.split_heads(self.linear(memory, self.shape(x)[-1]), heads) for _ in range(2))
        return self.linear(self.attention(q, k, v), self.shape(x)[-1])

    def mlp(self, x, inner, activation=None):
        return self.linear((activation or self.gelu)(self.linear(x, inner, gain=2.0)), self.shape(x)[-1])

    def extent(self, x, axis):
        """Adds nodes that compute the extent of a dimension, as a scalar."""
        return self.node("Gather", [self.node("Shape", [x]), self.b.integers(f"index_{axis}", axis)], axis=0)

    def positions(self, count):
        return self.node("Range", [self.b.integers("index_0", 0), count, self.b.integers("index_1", 1)])

    def causal_mask(self, count):
        """Adds a causal mask [count, count]: -10000 above the diagonal, 0 elsewhere."""
        row = self.positions(count)
        later = self.node("Less", [self.node("Unsqueeze", [row, self.integers([1])]), row])
        return self.node("Where", [later, self.b.scalar(-1e4), self.b.scalar(0)])


def llama(b):
    """Builds two layers with RMSNorm, rotary positions, grouped-query attention and SwiGLU."""
    p, heads, groups, width = Parts(b), 8, 2, 256
    x = p.node("Gather", [p.weight((512, width), 1.0), "input_ids"], axis=0)
    count = p.extent("input_ids", 1)
    size = width // heads
    position = p.node("Cast", [p.node("Unsqueeze", [p.positions(count), p.integers([1])])], to=1)
    frequencies = b.weight("frequencies", 1e4 ** -(np.arange(0, size, 2) / size)[None])
    angles = p.node("MatMul", [position, frequencies])
    angles = p.node("Concat", [angles, angles], axis=-1)
    cos, sin = p.node("Cos", [angles]), p.node("Sin", [angles])
    mask = p.causal_mask(count)

    def rotated(t):
        half, end = p.integers([size // 2]), p.integers([1 << 62])
        low = p.node("Slice", [t, p.integers([0]), half, p.integers([3])])
        high = p.node("Slice", [t, half, end, p.integers([3])])
        turned = p.node("Concat", [p.node("Neg", [high]), low], axis=-1)
        return p.add(p.mul(t, cos), p.mul(turned, sin))

    def repeated(t):  # repeats key and value heads for each query head of their group
        n, _, tokens, _ = p.shape(t)
        t = p.node("Unsqueeze", [t, p.integers([2])])
        t = p.node("Expand", [t, p.integers([n, groups, heads // groups, tokens, size])])
        return p.reshaped(t, [n, heads, tokens, size])

    for _ in range(2):
        y = p.rms_norm(x)
        q = rotated(p.split_heads(p.linear(y, width, bias=False), heads))
        k = repeated(rotated(p.split_heads(p.linear(y, groups * size, bias=False), groups)))
        v = repeated(p.split_heads(p.linear(y, groups * size, bias=False), groups))
        x = p.add(x, p.linear(p.attention(q, k, v, mask), width, bias=False))
        y = p.rms_norm(x)
        gate = p.silu(p.linear(y, 688, bias=False))
        x = p.add(x, p.linear(p.mul(gate, p.linear(y, 688, bias=False)), width, bias=False))
    return p.linear(p.rms_norm(x), 512, bias=False)


def gpt2(b):
    """Builds two layers with one product for query, key and value, and GELU by tanh."""
    p, heads, width = Parts(b), 8, 256
    x = p.node("Gather", [p.weight((512, width), 0.5), "input_ids"], axis=0)
    count = p.extent("input_ids", 1)
    x = p.add(x, p.node("Gather", [p.weight((128, width), 0.2), p.positions(count)], axis=0))
    mask = p.causal_mask(count)
    for _ in range(2):
        qkv = p.linear(p.layer_norm(x), 3 * width)
        ends = p.integers([0]), p.integers([width]), p.integers([2 * width]), p.integers([3 * width])
        q, k, v = (p.split_heads(p.node("Slice", [qkv, ends[i], ends[i + 1], p.integers([2])]), heads) for i in range(3))
        x = p.add(x, p.linear(p.attention(q, k, v, mask), width))
        x = p.add(x, p.mlp(p.layer_norm(x), 4 * width, p.gelu_tanh))
    return p.linear(p.layer_norm(x), 512, bias=False)


def whisper_encoder(b):
    """Builds two convolutions over the spectrogram, then two layers."""
    p, heads, width = Parts(b), 6, 192
    x = p.gelu(p.conv("mel", width, 3, pad=1))
    x = p.transposed(p.gelu(p.conv(x, width, 3, stride=2, pad=1)), 0, 2, 1)
    x = p.add(x, p.weight(p.shape(x)[1:], 0.3))
    for _ in range(2):
        x = p.add(x, p.self_attention(p.layer_norm(x), heads))
        x = p.add(x, p.mlp(p.layer_norm(x), 4 * width))
    return p.layer_norm(x)


def whisper_decoder(b):
    """Builds one step. Its inputs are a token, the keys and values of earlier tokens, and the encoder's output."""
    p, heads, width = Parts(b), 6, 192
    x = p.node("Gather", [p.weight((512, width), 0.5), "token"], axis=0)
    past = p.extent("past_key", 2)
    x = p.add(x, p.node("Gather", [p.weight((64, width), 0.2), p.node("Unsqueeze", [past, p.integers([0])])], axis=0))
    y = p.layer_norm(x)
    q, k, v = (p.split_heads(p.linear(y, width), heads) for _ in range(3))
    k, v = p.node("Concat", ["past_key", k], axis=2), p.node("Concat", ["past_value", v], axis=2)
    x = p.add(x, p.linear(p.attention(q, k, v), width))
    x = p.add(x, p.cross_attention(p.layer_norm(x), "encoded", heads))
    x = p.add(x, p.mlp(p.layer_norm(x), 4 * width))
    return p.linear(p.layer_norm(x), 512, bias=False)


def vit(b):
    """Builds patches with a class token, then two layers."""
    p, heads, width = Parts(b), 6, 192
    x = p.conv("image", width, 16, stride=16)
    x = p.transposed(p.reshaped(x, [0, width, -1]), 0, 2, 1)
    batch = p.node("Unsqueeze", [p.extent("image", 0), p.integers([0])])
    shape = p.node("Concat", [batch, p.integers([-1]), p.integers([-1])], axis=0)
    open_ = p.node("Equal", [shape, p.integers([-1])])  # -1 in torch's expand means the extent of the input
    shape = p.node("Where", [open_, p.node("ConstantOfShape", [p.integers([3])], value=one()), shape])
    x = p.node("Concat", [p.node("Expand", [p.weight((1, 1, width), 0.5), shape]), x], axis=1)
    x = p.add(x, p.weight(p.shape(x)[1:], 0.3))
    for _ in range(2):
        x = p.add(x, p.self_attention(p.layer_norm(x), heads))
        x = p.add(x, p.mlp(p.layer_norm(x), 4 * width))
    cls = p.node("Gather", [p.layer_norm(x), b.integers("index_0", 0)], axis=1)
    return p.linear(cls, 1000)


def one():
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ones(1, np.int64))


def swin(b):
    """Builds a pair of blocks on a 14x14 map: one with windows of 7x7, and one with shifted windows. A mask separates
    pixels that only the shift has put into one window."""
    p, heads, width, side, window, shift = Parts(b), 3, 96, 14, 7, 3
    x = "hidden"

    def roll(t, by):
        for axis in (1, 2):
            cut = p.integers([by % side])
            back = p.node("Slice", [t, cut, p.integers([1 << 62]), p.integers([axis])])
            front = p.node("Slice", [t, p.integers([0]), cut, p.integers([axis])])
            t = p.node("Concat", [back, front], axis=axis)
        return t

    def windows(t, c):
        n = side // window
        t = p.reshaped(t, [1, n, window, n, window, c])
        return p.reshaped(p.transposed(t, 0, 1, 3, 2, 4, 5), [-1, window * window, c])

    def whole(t):
        n = side // window
        t = p.reshaped(t, [1, n, n, window, window, width])
        return p.reshaped(p.transposed(t, 0, 1, 3, 2, 4, 5), [1, side, side, width])

    def mask():
        """Adds the mask: pixels of a window see each other only if they belong to one region of the unshifted map."""
        i = p.positions(p.extent(x, 1))
        parts = [p.node("Cast", [p.node("Less", [b.integers(f"bound_{edge}", edge - 1), i])], to=7)
                 for edge in (side - window, side - shift)]
        region = p.add(*parts)
        rows = p.node("Unsqueeze", [p.mul(region, b.integers("three", 3)), p.integers([1])])
        map_ = p.node("Unsqueeze", [p.add(rows, region), p.integers([0, 3])])
        flat = p.reshaped(windows(p.node("Cast", [map_], to=1), 1), [-1, window * window])
        apart = p.node("Sub", [p.node("Unsqueeze", [flat, p.integers([1])]), p.node("Unsqueeze", [flat, p.integers([2])])])
        same = p.node("Equal", [apart, b.scalar(0)])
        return p.node("Unsqueeze", [p.node("Where", [same, b.scalar(0), b.scalar(-100)]), p.integers([1])])

    for shifted in (False, True):
        y = p.layer_norm(x)
        y = windows(roll(y, shift) if shifted else y, width)
        bias = p.weight((1, heads, window * window, window * window), 0.5)
        y = whole(p.self_attention(y, heads, p.add(bias, mask()) if shifted else bias))
        x = p.add(x, roll(y, -shift) if shifted else y)
        x = p.add(x, p.mlp(p.layer_norm(x), 4 * width))
    return x


def unet(b):
    """Builds a denoising step: a time embedding of sines, residual blocks that use it, attention at the lowest
    resolution, and skip connections."""
    p, width = Parts(b), 32
    half = width // 2
    angles = p.mul("time", b.weight("frequencies", np.exp(-np.log(1e4) * np.arange(half) / half)[None]))
    time = p.node("Concat", [p.node("Sin", [angles]), p.node("Cos", [angles])], axis=-1)
    time = p.linear(p.silu(p.linear(time, 4 * width)), 4 * width)

    def block(x, channels):
        y = p.conv(p.silu(p.group_norm(x, 8)), channels, 3, pad=1)
        y = p.add(y, p.reshaped(p.linear(p.silu(time), channels), [1, channels, 1, 1]))
        y = p.conv(p.silu(p.group_norm(y, 8)), channels, 3, pad=1)
        return p.add(y, x if p.shape(x)[1] == channels else p.conv(x, channels, 1))

    def attend(x):
        _, c, h, w = p.shape(x)
        y = p.transposed(p.reshaped(p.group_norm(x, 8), [1, c, -1]), 0, 2, 1)
        return p.add(x, p.reshaped(p.transposed(p.self_attention(y, 4), 0, 2, 1), [1, c, h, w]))

    x = p.conv("sample", width, 3, pad=1)
    skips = []
    for channels in (width, 2 * width):
        x = block(x, channels)
        skips.append(x)
        x = p.conv(x, channels, 3, stride=2, pad=1)
    x = block(attend(block(x, 2 * width)), 2 * width)
    twice = b.weight("twice", np.array([1.0, 1, 2, 2]))
    for channels, skip in zip((2 * width, width), skips[::-1]):
        x = p.node("Resize", [x, "", twice], mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")
        x = block(p.node("Concat", [p.conv(x, channels, 3, pad=1), skip], axis=1), channels)
    return p.conv(p.silu(p.group_norm(x, 8)), 4, 3, pad=1)


def detr(b):
    """Builds the head: an encoder layer on a map of features, a decoder layer with queries, then classes and boxes."""
    p, heads, width = Parts(b), 8, 128
    x = p.conv("features", width, 1)
    x = p.transposed(p.reshaped(x, [0, 0, -1]), 0, 2, 1)
    x = p.add(x, p.weight(p.shape(x)[1:], 0.3))
    x = p.layer_norm(p.add(x, p.self_attention(x, heads)))
    x = p.layer_norm(p.add(x, p.mlp(x, 4 * width, lambda t: p.node("Relu", [t]))))
    q = p.weight((1, 100, width), 1.0)
    q = p.layer_norm(p.add(q, p.self_attention(q, heads)))
    q = p.layer_norm(p.add(q, p.cross_attention(q, x, heads)))
    q = p.layer_norm(p.add(q, p.mlp(q, 4 * width, lambda t: p.node("Relu", [t]))))
    boxes = p.node("Sigmoid", [p.mlp(q, width, lambda t: p.node("Relu", [t]))])
    boxes = p.linear(boxes, 4)
    return p.node("Concat", [p.linear(q, 92), p.node("Sigmoid", [boxes])], axis=-1)


def yolo(b):
    """Builds the head: boxes and classes for the cells of a grid, and the selection of the 100 most likely boxes."""
    p, classes = Parts(b), 20
    side = p.shape("features")[2]
    y = p.conv(p.silu(p.conv("features", 64, 3, pad=1)), 3 * (5 + classes), 1)
    y = p.transposed(p.reshaped(y, [1, 3, 5 + classes, side, side]), 0, 1, 3, 4, 2)
    y = p.node("Sigmoid", [y])
    part = lambda begin, end: p.node("Slice", [y, p.integers([begin]), p.integers([end]), p.integers([4])])
    line = p.node("Cast", [p.positions(p.extent("features", 2))], to=1)
    square = p.integers([side, side])
    columns = p.node("Expand", [line, square])
    rows = p.node("Expand", [p.node("Unsqueeze", [line, p.integers([1])]), square])
    grid = p.node("Concat", [p.node("Unsqueeze", [g, p.integers([2])]) for g in (columns, rows)], axis=2)
    center = p.scaled(p.add(p.node("Sub", [p.scaled(part(0, 2), 2.0), b.scalar(0.5)]), grid), 8.0)
    anchors = b.weight("anchors", np.array([[10, 13], [16, 30], [33, 23]]).reshape(1, 3, 1, 1, 2))
    size = p.mul(p.node("Pow", [p.scaled(part(2, 4), 2.0), b.scalar(2)]), anchors)
    y = p.node("Concat", [center, size, part(4, 5 + classes)], axis=4)
    y = p.reshaped(y, [1, -1, 5 + classes])
    likely = p.reshaped(p.node("Slice", [y, p.integers([4]), p.integers([5]), p.integers([2])]), [1, -1])
    p.node("TopK", [likely, p.integers([100])], others=["places"], axis=1)
    places = p.node("Expand", [p.reshaped("places", [1, 100, 1]), p.integers([1, 100, 5 + classes])])
    return p.node("GatherElements", [y, places], axis=1)


def maxvit(b):
    """Builds a block on a 14x14 map: an inverted residual, attention in windows of 7x7, attention across a 7x7 grid."""
    p, heads, width, side, window = Parts(b), 4, 64, 14, 7
    n = side // window

    def depthwise(x):
        w = p.weight((p.shape(x)[1], 1, 3, 3), 1 / 3)
        return p.node("Conv", [x, w], kernel_shape=[3, 3], pads=[1] * 4, group=p.shape(x)[1])

    def excited(x):
        y = p.node("GlobalAveragePool", [x])
        return p.mul(x, p.node("Sigmoid", [p.conv(p.silu(p.conv(y, width // 4, 1)), p.shape(x)[1], 1)]))

    def attend(x, perm):
        """Adds attention among the tokens of a window. Rows and columns of the map are split into axes [n, window], and
        `perm` sorts these axes."""
        y = p.reshaped(p.layer_norm(x), [1, n, window, n, window, width])
        y = p.reshaped(p.transposed(y, *perm), [n * n, window * window, width])
        q, k, v = (p.reshaped(p.linear(y, width), [n * n, window * window, heads, width // heads]) for _ in range(3))
        scores = p.node("Einsum", [q, k], equation="bihd,bjhd->bhij")
        scores = p.add(p.scaled(scores, (width // heads) ** -0.5), p.weight((1, heads, window**2, window**2), 0.5))
        y = p.node("Einsum", [p.node("Softmax", [scores], axis=-1), v], equation="bhij,bjhd->bihd")
        y = p.linear(p.reshaped(y, [n * n, window * window, width]), width)
        inverse = [int(i) for i in np.argsort(perm)]
        y = p.transposed(p.reshaped(y, [1, *(n if i in (1, 3) else window for i in perm[1:5]), width]), *inverse)
        x = p.add(x, p.reshaped(y, [1, side, side, width]))
        return p.add(x, p.mlp(p.layer_norm(x), 4 * width))

    y = excited(p.silu(depthwise(p.silu(p.conv("map", 4 * width, 1)))))
    x = p.transposed(p.add("map", p.conv(y, width, 1)), 0, 2, 3, 1)
    x = attend(x, (0, 1, 3, 2, 4, 5))
    return attend(x, (0, 2, 4, 1, 3, 5))


def recurrent(kind, gates):
    """Returns a function that builds two bidirectional layers, then classes for each step."""

    def net(b):
        p, x, units = Parts(b), "steps", 128
        for _ in range(2):
            width = p.shape(x)[2]
            weights = [p.weight((2, gates * units, n), n**-0.5) for n in (width, units)]
            y = p.node(kind, [x, *weights, p.weight((2, 2 * gates * units), 0.1)], hidden_size=units, direction="bidirectional")
            x = p.reshaped(p.transposed(y, 0, 2, 1, 3), [0, 0, -1])
        return p.linear(x, 40)

    return net


def floats(*shapes):
    """Returns inputs of normal numbers, by name."""
    return lambda rng, _: {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes}


def ids(name, shape, *others):
    return lambda rng, batch: {name: rng.integers(0, 512, shape), **floats(*others)(rng, batch)}


CACHE = (1, 6, 24, 32)
# Maps a name to (architecture, inputs, batch of the sample).
NETS = {
    "llama": (llama, ids("input_ids", (1, 64)), 1),
    "gpt2": (gpt2, ids("input_ids", (1, 64)), 1),
    "whisper_encoder": (whisper_encoder, floats(("mel", (1, 80, 200))), 1),
    "whisper_decoder": (
        whisper_decoder,
        ids("token", (1, 1), ("past_key", CACHE), ("past_value", CACHE), ("encoded", (1, 100, 192))), 1),
    "vit": (vit, floats(("image", (1, 3, 112, 112))), 1),
    "swin": (swin, floats(("hidden", (1, 14, 14, 96))), 1),
    "unet": (unet, lambda rng, _: {"sample": rng.normal(0, 1, (1, 4, 32, 32)).astype(np.float32),
                                   "time": np.full((1, 1), rng.integers(1, 1000), np.float32)}, 1),
    "detr": (detr, floats(("features", (1, 256, 10, 10))), 1),
    "yolo": (yolo, floats(("features", (1, 128, 20, 20))), 1),
    "maxvit": (maxvit, floats(("map", (1, 64, 14, 14))), 1),
    "lstm2": (recurrent("LSTM", 4), floats(("steps", (60, 1, 80))), 1),
    "gru2": (recurrent("GRU", 3), floats(("steps", (60, 1, 80))), 1),
}
