"""Feature operators, linear models and support vector machines of ai.onnx.ml, and texts as labels.

Random models of one operator are compared with ONNX Runtime; exports of scikit-learn with it as
well, where ``skl2onnx`` is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import NnefError

from .classical import DOUBLE, FLOAT, INT64, ROUTES, agrees, found, helper, model, onnx, singles

Random = np.random.Generator
Made = tuple[Any, np.ndarray]
INT32 = 6
DTYPES = {FLOAT: np.float32, INT64: np.int64, INT32: np.int32, DOUBLE: np.float64}


def reals(random: Random, features: int) -> np.ndarray:
    return random.standard_normal((9, features)).astype(np.float32)


def numbers(random: Random, features: int) -> tuple[int, np.ndarray]:
    """A dtype of inputs, and rows of it, one of them zero."""
    dtype = int(random.choice(list(DTYPES)))
    x = random.standard_normal((9, features)) * 9
    x[0] = 0
    return dtype, x.astype(DTYPES[dtype])


def scaler(random: Random, features: int) -> Made:
    dtype, x = numbers(random, features)
    count = int(random.choice([1, features]))
    values = {name: singles(random.standard_normal(count)) for name in ("scale", "offset")}
    return model("Scaler", features, {"y": FLOAT}, dtype=dtype, **values), x


def normalizer(random: Random, features: int) -> Made:
    dtype, x = numbers(random, features)
    norm = str(random.choice(["MAX", "L1", "L2"]))
    return model("Normalizer", features, {"y": FLOAT}, dtype=dtype, norm=norm), x


def binarizer(random: Random, features: int) -> Made:
    return model("Binarizer", features, {"y": FLOAT}, threshold=0.25), reals(random, features)


def imputer(random: Random, features: int) -> Made:
    count = int(random.choice([1, features]))
    if random.integers(2):
        x = random.integers(0, 3, (9, features))
        values = {"replaced_value_int64": 1, "imputed_value_int64s": list(range(5, 5 + count))}
        return model("Imputer", features, {"y": INT64}, dtype=INT64, **values), x
    missing = float(random.choice([np.nan, 2.5]))
    x = reals(random, features)
    x[random.random(x.shape) < 0.3] = missing
    imputed = singles(random.standard_normal(count))
    return model("Imputer", features, {"y": FLOAT}, replaced_value_float=missing,
                 imputed_value_floats=imputed), x  # fmt: skip


def feature_vectorizer(random: Random, features: int) -> Made:
    dtype, x = numbers(random, features)
    widths = [int(random.integers(1, 7))]
    return model(
        "FeatureVectorizer", features, {"y": FLOAT}, dtype=dtype, inputdimensions=widths
    ), x


def one_hot_encoder(random: Random, features: int) -> Made:
    x = random.integers(-2, 5, (9, features))
    dtype = int(random.choice([FLOAT, INT64]))
    zeros = int(random.integers(2))
    categories = [3, -1, 0, 2] if zeros else [4, 3, -1, 0, 2, 1, -2]
    x = (x + 0.3 if dtype == FLOAT else x).astype(DTYPES[dtype])
    return model("OneHotEncoder", features, {"y": FLOAT}, dtype=dtype, cats_int64s=categories,
                 zeros=zeros), x  # fmt: skip


def label_encoder(random: Random, features: int) -> Made:
    version, count = int(random.choice([2, 4])), int(random.integers(1, 6))
    values = singles(random.standard_normal(count))
    if random.integers(2):
        keys = [1.5, 0.0, -2.0, 7.0, float("nan")][: count if version == 4 else min(count, 4)]
        x = random.choice([1.5, 0, -2, 7, np.nan, 4], (9, features)).astype(np.float32)
        return model("LabelEncoder", features, {"y": FLOAT}, version=version, keys_floats=keys,
                     values_floats=values[: len(keys)], default_float=-3.0), x  # fmt: skip
    x = random.choice([3, 0, -2, 7, 9, 4], (9, features))
    keys, integers = [3, 0, -2, 7, 9][:count], [5, 4, 3, 2, 1][:count]
    return model("LabelEncoder", features, {"y": INT64}, version=version, dtype=INT64,
                 keys_int64s=keys, values_int64s=integers), x  # fmt: skip


def label_encoder_of_tensors(random: Random, features: int) -> Made:
    keys = helper.make_tensor("k", DOUBLE, [3], [0.1, 2.0, np.nan])
    values = helper.make_tensor("v", DOUBLE, [3], [7, 8, 9])
    default = helper.make_tensor("d", DOUBLE, [1], [-5])
    x = random.choice([0.1, 2, np.nan, 3], (9, features))
    return model("LabelEncoder", features, {"y": DOUBLE}, version=4, dtype=DOUBLE, keys_tensor=keys,
                 values_tensor=values, default_tensor=default), x  # fmt: skip


def array_feature_extractor(random: Random, features: int) -> Made:
    index = random.integers(0, features, int(random.integers(1, 5)))
    return model("ArrayFeatureExtractor", features, {"y": FLOAT}, constants={"i": index}), reals(
        random, features)  # fmt: skip


def linear_regressor(random: Random, features: int) -> Made:
    targets = int(random.integers(1, 4))
    post = str(random.choice(["NONE", "SOFTMAX", "SOFTMAX_ZERO"])) if targets > 1 else "NONE"
    return model(
        "LinearRegressor", features, {"y": FLOAT}, targets=targets, post_transform=post,
        coefficients=singles(random.standard_normal((targets, features))),
        intercepts=singles(random.standard_normal(targets)),
    ), reals(random, features)  # fmt: skip


def linear_classifier(random: Random, features: int) -> Made:
    classes = int(random.integers(2, 5))
    count = 1 if classes == 2 and random.integers(2) else classes
    post = str(random.choice(["NONE", "LOGISTIC", "SOFTMAX", "PROBIT"][: 4 if count > 1 else 3]))
    size = 0.05 if post == "PROBIT" else 1.0
    return model(
        "LinearClassifier", features, {"label": INT64, "y": FLOAT}, post_transform=post,
        coefficients=singles(size * random.standard_normal((count, features))),
        intercepts=singles([0.5] * count), classlabels_ints=[7, -3, 5, 1][:classes],
    ), reals(random, features)  # fmt: skip


def kernel(random: Random) -> dict[str, Any]:
    kind = str(random.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]))
    degree = float(random.choice([2, 3]))
    return {"kernel_type": kind, "kernel_params": [0.5, 0.25, degree]}


def svm_regressor(random: Random, features: int) -> Made:
    vectors = int(random.integers(6))
    support = singles(random.standard_normal((vectors, features)))
    return model(
        "SVMRegressor", features, {"y": FLOAT}, n_supports=vectors, rho=[0.25],
        coefficients=singles(random.standard_normal(vectors or features)),
        support_vectors=support or None, one_class=int(random.integers(2)), **kernel(random),
    ), reals(random, features)  # fmt: skip


def svm_classifier(random: Random, features: int) -> Made:
    classes = int(random.integers(2, 5))
    pairs, counts = classes * (classes - 1) // 2, random.integers(1, 4, classes)
    vectors = int(counts.sum())
    if classes > 2 and random.integers(4) == 0:
        return model(
            "SVMClassifier", features, {"label": INT64, "y": FLOAT}, rho=[0.25],
            coefficients=singles(random.standard_normal((classes, features))),
            classlabels_ints=[7, -3, 5, 1][:classes], **kernel(random),
        ), reals(random, features)  # fmt: skip
    chances = {"prob_a": singles(-random.uniform(0.5, 2, pairs)),
               "prob_b": singles(random.standard_normal(pairs))}  # fmt: skip
    return model(
        "SVMClassifier", features, {"label": INT64, "y": FLOAT},
        coefficients=singles(random.standard_normal((classes - 1, vectors))),
        support_vectors=singles(random.standard_normal((vectors, features))),
        rho=singles(random.standard_normal(pairs)), vectors_per_class=counts.tolist(),
        classlabels_ints=[7, -3, 5, 1][:classes], **kernel(random),
        post_transform=str(random.choice(["NONE", "LOGISTIC", "SOFTMAX"])),
        **(chances if random.integers(2) else {}),
    ), reals(random, features)  # fmt: skip


OPERATORS: Mapping[str, Callable[[Random, int], Made]] = {
    each.__name__: each
    for each in (scaler, normalizer, binarizer, imputer, feature_vectorizer, one_hot_encoder,
                 label_encoder, label_encoder_of_tensors, array_feature_extractor,
                 linear_regressor, linear_classifier, svm_regressor, svm_classifier)
}  # fmt: skip


def made(name: str, seed: int) -> Made:
    random = np.random.default_rng(seed)
    return OPERATORS[name](random, int(random.integers(1, 6)))


SLOW_ON_THE_EVALUATOR = pytest.param("svm_classifier", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [*list(OPERATORS)[:-1], SLOW_ON_THE_EVALUATOR])
def test_an_operator_agrees_on_the_evaluator(name: str) -> None:
    for seed in range(2):
        agrees(*made(name, seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_many_models_of_an_operator_agree(name: str) -> None:
    for seed in range(2, 30):
        agrees(*made(name, seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_agrees_on_three_routes(name: str) -> None:
    agrees(*made(name, 50), ROUTES)


def test_a_repeated_key_has_its_last_value() -> None:
    """Since version 4; ONNX Runtime takes the first one."""
    keys = {"keys_int64s": [1, 2, 1], "values_int64s": [10, 20, 30]}
    proto = model("LabelEncoder", 2, {"y": INT64}, dtype=INT64, version=4, **keys)
    (y,) = found(proto, np.array([[1, 2], [3, 1]]), "reference")
    assert y.tolist() == [[30, 20], [-1, 30]]


def test_tensors_of_short_integers_are_keys_and_values() -> None:
    """ONNX Runtime has no kernel for them."""
    given = {"keys": [3, 9], "values": [7, 8], "default": [-5]}
    keys, values, default = (helper.make_tensor(name, 5, [len(each)], each)
                             for name, each in given.items())  # fmt: skip
    proto = model("LabelEncoder", 2, {"y": 5}, version=4, dtype=5, keys_tensor=keys,
                  values_tensor=values, default_tensor=default)  # fmt: skip
    (y,) = found(proto, np.array([[9, 3], [4, 9]], np.int16), "reference")
    assert (y.dtype, y.tolist()) == (np.int16, [[8, 7], [-5, 8]])


def test_a_vector_is_one_row() -> None:
    proto = model("LinearRegressor", 2, {"y": FLOAT}, coefficients=[1.0, 2.0])
    del proto.graph.input[0].type.tensor_type.shape.dim[0]
    (y,) = found(proto, np.array([3, 4], np.float32), "reference")
    assert y.tolist() == [[11.0]]


def test_an_unknown_category_is_an_error_at_run_time() -> None:
    proto = model("OneHotEncoder", 1, {"y": FLOAT}, dtype=INT64, cats_int64s=[1, 5], zeros=0)
    (y,) = found(proto, np.array([[5], [1]]), "reference")
    assert y.tolist() == [[[0, 1]], [[1, 0]]]
    with pytest.raises(NnefError, match="an element is in none of the categories"):
        found(proto, np.array([[5], [2]]), "reference")


REFUSED = {
    "LabelEncoder": ({"keys_strings": ["a"], "values_int64s": [1]}, "not string"),
    "LabelEncoder ": ({"keys_int64s": [1, 2], "values_int64s": [1]}, "differ in length"),
    "LabelEncoder  ": ({"keys_floats": [1.0], "values_int64s": [1]}, "not float"),
    "OneHotEncoder": ({"cats_strings": ["a"]}, "texts"),
    "OneHotEncoder ": ({"cats_int64s": [1, 1]}, "given twice"),
    "Scaler": ({"scale": [1.0, 2.0, 3.0], "offset": [0.0] * 3}, "3 values for 2 features"),
    "Imputer": ({"imputed_value_floats": [1.0]}, "'imputed_value_int64s' must be given"),
    "FeatureVectorizer": ({"inputdimensions": [1, 2]}, "differ in length"),
    "Normalizer": ({"norm": "L3"}, "'norm' is 'L3'"),
    "LinearRegressor": ({"coefficients": [1.0] * 3, "targets": 2}, "equally many in 2 rows"),
    "LinearRegressor ": ({"coefficients": [1.0] * 3}, "its input has 2 features"),
    "LinearRegressor  ": ({"coefficients": [1.0] * 2, "post_transform": "SOFTMAX"}, "single"),
    "LinearClassifier": ({"coefficients": [1.0] * 6, "classlabels_ints": [1, 2]}, "2 labels"),
    "SVMRegressor": ({"coefficients": [1.0], "n_supports": 3, "rho": [0.0]}, "differ in length"),
    "SVMRegressor ": ({"coefficients": [1.0], "n_supports": 1, "rho": [0.0], "kernel_type": "RBF",
                       "support_vectors": [1.0, 2.0]}, "kernel_params"),
    "SVMClassifier": ({"classlabels_ints": [0, 1], "vectors_per_class": [1, 1], "rho": [0.0],
                       "coefficients": [1.0] * 3}, "'coefficients' has 3 values, not 2"),
    "SVMClassifier ": ({"classlabels_ints": [0, 1], "vectors_per_class": [10**12, 1],
                        "rho": [0.0], "coefficients": [1.0]}, "not 10000000000"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_attributes_are_refused(name: str) -> None:
    attributes, words = REFUSED[name]
    operator = name.strip()
    outputs = {"label": INT64, "y": FLOAT} if operator.endswith("Classifier") else {"y": FLOAT}
    proto = model(operator, 2, outputs, dtype=INT64, **attributes)
    with pytest.raises(NnefError, match=words):
        tvm_nnef.convert(proto, bounds=8)


def classified_by_name(*after: Any) -> Any:
    """A linear classifier of three classes with names, and nodes that follow it."""
    proto = model(
        "LinearClassifier", 2, {"label": 8, "y": FLOAT}, coefficients=[1.0, 0, 0, 1.0, -1.0, -1.0],
        intercepts=[0.0] * 3, classlabels_strings=["ant", "bee", "cat"], post_transform="SOFTMAX",
    )  # fmt: skip
    proto.graph.node.extend(after)
    return proto


ROWS = np.array([[3, 0], [0, 3], [-3, -3], [0, 1]], np.float32)


def test_names_of_classes_are_labels_of_the_model(tmp_path: Path) -> None:
    converted = tvm_nnef.convert(classified_by_name(), tmp_path / "m.nnef2", bounds=8)
    label, y = tvm_nnef.evaluate(converted, ROWS)
    assert (label.dtype, label.tolist()) == (np.int64, [0, 1, 2, 1])
    assert converted.labels == tvm_nnef.load_model(tmp_path / "m.nnef2").labels
    assert converted.labels == ("ant", "bee", "cat")
    np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-6)


def zipped(static: bool = False) -> Any:
    """The same with labels that are moved, and a dictionary of scores for each row."""
    nodes = [helper.make_node("Identity", ["label"], ["same"]),
             helper.make_node("Flatten", ["same"], ["column"]),
             helper.make_node("ZipMap", ["y"], ["z"], domain="ai.onnx.ml",
                              classlabels_strings=["ant", "bee", "cat"])]  # fmt: skip
    proto = classified_by_name(*nodes)
    proto.graph.output[0].name = "same" if static else "column"
    proto.graph.output.pop()
    kind = helper.make_map_type_proto(8, helper.make_tensor_type_proto(FLOAT, None))
    proto.graph.output.append(helper.make_value_info("z", helper.make_sequence_type_proto(kind)))
    if static:
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = len(ROWS)
    return proto


def test_names_of_classes_pass_through_what_moves_them() -> None:
    converted = tvm_nnef.convert(zipped(), bounds=8)
    column, z = tvm_nnef.evaluate(converted, ROWS)
    assert column.tolist() == [[0], [1], [2], [1]]
    assert converted.labels == ("ant", "bee", "cat")
    assert (z.dtype, z.shape) == (np.float32, (4, 3))


def test_the_commands_know_names_of_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    file, rows = tmp_path / "m.onnx", tmp_path / "x.npy"
    onnx.save(zipped(static=True), file)
    np.save(rows, ROWS)
    folder = str(tmp_path / "m.nnef2")
    assert main(["convert", str(file), folder]) == 0
    assert main(["check", folder]) == 0
    capsys.readouterr()
    assert main(["run", folder, "-i", str(rows), "--route", "reference"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == ["same: int64 [4]", "  [0] ant", "  [1] bee", "  [2] cat", "  [3] bee"]
    report = tvm_nnef.compare(folder, against=file, routes=("onnxruntime", "reference"))
    assert report.agrees
    assert [row.origin.tensor for row in report.rows if row.origin] == ["z"]


@pytest.mark.parametrize("operator", ["Cast", "LabelEncoder"])
def test_what_reads_names_of_classes_is_refused(operator: str) -> None:
    """Their indices would be taken for what they mean."""
    more = {
        "Cast": {"to": INT64},
        "LabelEncoder": {"domain": "ai.onnx.ml", "keys_int64s": [0], "values_int64s": [5]},
    }
    proto = classified_by_name(helper.make_node(operator, ["label"], ["n"], **more[operator]))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("n", INT64, None))
    with pytest.raises(NnefError, match="texts"):
        tvm_nnef.convert(proto, bounds=8)


def test_texts_of_integers_are_given_by_their_indices() -> None:
    proto = model("LabelEncoder", 2, {"y": 8}, dtype=INT64, version=2, keys_int64s=[4, 9],
                  values_strings=["four", "nine"], default_string="none")  # fmt: skip
    converted = tvm_nnef.convert(proto, bounds=8)
    (y,) = tvm_nnef.evaluate(converted, np.array([[9, 4], [0, 9]]))
    assert [[converted.labels[each] for each in row] for row in y] == [
        ["nine", "four"], ["none", "nine"]]  # fmt: skip


def estimators() -> Mapping[str, Any]:
    sklearn = pytest.importorskip("sklearn")
    from sklearn import ensemble, linear_model, naive_bayes, pipeline, preprocessing, svm

    assert sklearn
    return {
        "forest": ensemble.RandomForestClassifier(8, max_depth=4, random_state=0),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=6, random_state=0),
        "pipeline": pipeline.make_pipeline(
            preprocessing.StandardScaler(), linear_model.LogisticRegression()
        ),
        "svm": svm.SVC(probability=True, random_state=0),
        "bayes": naive_bayes.GaussianNB(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("name", ["forest", "boosting", "pipeline", "svm", "bayes"])
def test_exports_of_scikit_learn_agree(name: str, names: bool) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    random = np.random.default_rng(3)
    x = random.standard_normal((90, 4)).astype(np.float32)
    classes = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    classes = np.array(["ant", "bee", "cat"])[classes] if names else classes
    fitted = estimators()[name].fit(x, classes)
    proto = skl2onnx.to_onnx(fitted, x[:1], target_opset={"": 18, "ai.onnx.ml": 3})
    label, chances = runtime.InferenceSession(proto.SerializeToString()).run(None, {"X": x})
    converted = tvm_nnef.convert(proto, bounds=128)
    compiled = tvm_nnef.build(converted, progress=False)
    for outputs in (tvm_nnef.evaluate(converted, x), compiled(x)):
        ours = np.array(converted.labels)[outputs[0]] if names else np.asarray(outputs[0])
        np.testing.assert_array_equal(ours, label)
        expected = np.array([list(row.values()) for row in chances])
        np.testing.assert_allclose(outputs[1], expected, rtol=1e-3, atol=1e-5)
