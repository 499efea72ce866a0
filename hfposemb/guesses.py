"""Answers to names that people try, from transformers, sentence-transformers, gensim, scikit-learn, numpy and umap."""

from __future__ import annotations

import os
from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

SYNONYMS = {
    "k": "topk n topn top limit nneighbor num number count maxresult kneighbor nbest size",
    "count": "topk n topn top limit num number k maxresult nbest",
    "most": "topk n top limit num number k count max",
    "limit": "topk n top num number k count max",
    "dims": "ncomponent dim ndim dimension d component ndim",
    "umap": "nneighbor mindist nepoch umapparam umapparameter init",
    "method": "algorithm algo reducer kind how estimator",
    "projection": "method algorithm reducer",
    "metric": "distance similarity measure dist metrics",
    "metrics": "measure figure",
    "centred": "centre center centered meancentre subtractmean",
    "query": "word token key positive",
    "rows": "word token indice id index label key term",
    "labels": "word token vocab vocabulary name text key indextokey itos",
    "tables": "role table layer tensor",
    "words": "row token query querie term label",
    "seed": "randomstate rng randomseed",
    "source": "model modelname modelid name path repo repoid pretrainedmodelnameorpath checkpoint file url",
    "sources": "model models name path paths repos checkpoint",
    "value": "table embedding vector matrix x data model source token",
    "token": (
        "useauthtoken hftoken auth word wte wordembedding inputembedding embedtoken vocab vocabulary embedding input"
    ),
    "position": "po wpe positional positionembedding positionalembedding embedposition pe",
    "head": "lmhead output unembedding outputembedding",
    "token_type": "segment type tokentypeembedding",
    "progress": "verbose showprogressbar progressbar tqdm",
    "draws": "ndraw sample permutation nsample nperm npermutation",
    "length": "maxlen seqlen nposition maxlength n",
    "width": "dim dmodel hiddensize embeddingdim d",
    "base": "theta ropetheta",
    "pca": "svd principalcomponent linear",
    "cosine": "co cosinesimilarity angular cosim cossim",
    "dot": "inner innerproduct ip dotproduct dotscore product",
    "euclidean": "l2 euclid l2distance distance",
    "out": "format output o outfile file save saveto path dest",
    "json": "format outputformat",
    "table": "role kind which layer embedding type",
    "no-open": "nobrowser headless",
    "port": "serverport p",
    "host": "servername address bind",
    "share": "public tunnel",
    "app": "show serve launch ui run start gui open web gradio panel server demo",
    "info": "l ls list show summary describe inspect tables stat header cat view",
    "neighbours": "nearest similar knn mostsimilar nearestneighbour nn search query closest",
    "similarity": "cosine cosim cossim cosinesimilarity sim distance",
    "project": "pca umap reduce projection embed tsne map",
    "extract": "load get dump download read pull save fetch",
    "export": "plot figure draw save convert write picture image render visualise visualize",
    "compare": "diff versu v comparison",
    "check": "lint validate doctor test audit diagnose",
    "cache": "clear clean purge",
    "help": "h usage man",
    "version": "v",
    "verbose": "v loglevel log",
}
"""Our names of arguments, options, choices and commands, and what else they are called, as ``_plain`` writes it."""

ANSWERS = {
    "hpe.neighbours({table}, 'king')": (
        "most_similar similar_by_word similar_by_vector similar_by_key kneighbors knn nn nearest topk top_k "
        "semantic_search nearest_rows find_similar closest NearestNeighbors nearest_neighbours similar "
        "most_similar_cosmul search query paraphrase_mining closer_than neighbours"
    ),
    "hpe.similarity({table}, ['king', 'queen'])": (
        "cos_sim cosine_similarity cosine pairwise_distances sim dot dot_score cosine_distances pairwise_cos_sim "
        "pairwise_cosine_similarity euclidean_distances n_similarity distance distances similarities "
        "similarity_matrix pytorch_cos_sim wmdistance similarity dist pdist cdist gram"
    ),
    "hpe.project({table}, method='pca')": (
        "pca fit fit_transform transform reduce projection truncated_svd decompose dimensionality_reduction "
        "components n_components inverse_transform projector"
    ),
    "hpe.project({table}, method='umap')": "umap umap_ embed_2d",
    "hpe.project({table}, method=sklearn.manifold.TSNE())": "tsne t_sne mds isomap",
    "hpe.show({source}) or hpe.view('positions', {source})": (
        "plot plt draw visualize visualise figure heatmap imshow display render matshow scatter hist plot_embeddings "
        "explore chart graph picture"
    ),
    "hpe.extract('owner/name')": (
        "AutoModel AutoTokenizer from_file open read load_model from_hub SentenceTransformer KeyedVectors Word2Vec "
        "download model get_model pretrained load_word2vec_format load_pretrained from_model AutoModelForCausalLM "
        "AutoModelForMaskedLM BertModel GPT2Model fetch load load_embeddings from_pretrained from_checkpoint snapshot "
        "hf_hub_download safetensors load_facebook_model fasttext glove TransformerModel pipeline source api"
    ),
    "hpe.extract('rotary:512x64')": "rotary rope",
    "hpe.extract('alibi:512x8')": "alibi",
    "hpe.extract('random:512x64')": "random random_table",
    "hpe.extract('sample:gpt2')": "list_samples example examples demo toy load_sample load_example",
    "hpe.from_arrays(token=vectors)": (
        "from_numpy from_torch from_tensor from_array from_vectors from_list from_dict from_pandas from_frame "
        "from_dataframe from_weights from_embedding"
    ),
    "{source}.token": (
        "get_input_embeddings wte word_embeddings tokens embeddings embed_tokens embedding word words "
        "token_embeddings input_embeddings word_embedding embedding_matrix W_E token_embedding tok_embeddings shared "
        "input token_table get_token_embeddings vocab_embeddings wv"
    ),
    "{source}.position": (
        "wpe position_embeddings embed_positions get_position_embeddings position_embedding pos pe "
        "positional_encoding position_encoding positional_embeddings W_pos position_table "
        "get_position_encoding apply_rotary_pos_emb positional_embedding pos_embed position_ids rotary_emb inv_freq"
    ),
    "{source}.head": "get_output_embeddings lm_head output_embeddings unembedding W_U unembed output_head output cls",
    "{source}.token_type": "segment segments token_type_embeddings segment_embeddings",
    "{source}.inputs('some text')": (
        "encode forward tokenize tokenizer embed predict embed_text get_embeddings encode_text call generate "
        "last_hidden_state hidden_states embed_documents embed_query input_ids"
    ),
    "{source}.config": "AutoConfig get_config cfg configuration settings model_type architecture",
    "{source}.tables": (
        "keys items values state_dict parameters named_parameters layers list_tables list modules info summary "
        "describe head_names roles"
    ),
    "{table}.vectors": (
        "weight weights numpy values data array to_numpy syn0 matrix X toarray T tolist vector as_array vecs "
        "get_normed_vectors to_list asarray raw mat vectors embedding embeddings rows_array get_weights ndarray"
    ),
    "{table}['king']": "get_vector word_vec vec get get_row loc iloc at lookup get_mean_vector get_word_vector item",
    "{table}.labels": (
        "vocab index_to_key key_to_index words get_vocab index2word stoi itos names index vocabulary tokens keys "
        "columns id2token feature_names_in_ get_feature_names_out convert_ids_to_tokens labels texts tokens_list "
        "word2id"
    ),
    "'king' in {table}": "has_index_for has_key contains isin",
    "{table}.row('king')": "get_index index_of token_id convert_tokens_to_ids id word_index find token_to_id key_index",
    "{table}.shape": (
        "size ndim width dim vector_size embedding_dim num_embeddings hidden_size vocab_size n_features_in_ d_model "
        "get_sentence_embedding_dimension dimension length rows_count num_rows n_rows max_position_embeddings shape"
    ),
    "{table}.to_torch()": "torch cpu detach cuda to pt tensor to_tensor as_tensor float half",
    "{table}.to_frame()": "to_pandas df to_df pandas frame dataframe to_csv as_frame to_polars to_dict",
    "hpe.norms({table})": "norm length lengths magnitude magnitudes l2_norm linalg row_norms vector_norms",
    "hpe.spectrum({table})": (
        "svd eigenvalues explained_variance_ratio_ singular_values covariance explained_variance eig scree variance "
        "singular_values_ participation_ratio effective_rank"
    ),
    "hpe.intrinsic_dimension({table})": "twonn two_nn id_estimate lid",
    "hpe.sinusoidal(512, 128)": (
        "sincos sine sinusoid sin PositionalEncoding sinusoidal_encoding get_sinusoid_table "
        "create_sinusoidal_embeddings sinusoidal_position_encoding"
    ),
    "hpe.neighbours({table}, {table}['king'] - {table}['man'] + {table}['woman'])": (
        "analogy analogies evaluate_word_analogies"
    ),
    "hpe.check('owner/name')": "validate lint diagnose doctor audit verify",
    "hpe.compare('gpt2', 'bert-base-uncased')": (
        "diff cka procrustes align compare_models evaluate benchmark rsa cca svcca"
    ),
    "hpe.write_table(table, 'table.npz')": (
        "save save_pretrained to_parquet export write push_to_hub dump save_word2vec_format to_npy to_safetensors "
        "to_csv savez"
    ),
    "hfposemb.app: from hfposemb.app import launch, panel": "launch app serve gradio run panel ui demo server start",
    "hpe.undertrained_tokens({source})": "glitch_tokens odd_tokens glitch untrained anomalous_tokens",
    "hpe.HfposembError": "Error exceptions Exception",
    "hfposemb.errors: from hfposemb.errors import InputError": "InputError SourceError MissingTableError HubError",
}
"""How to write what is asked for, and names under which people look for it."""

OF_RESULTS = {
    "Projection": {
        "coordinates": (
            "embedding_ embedding x y z points data value values vectors xy coords position positions numpy fit "
            "transform fit_transform array layout result X_embedded tolist to_numpy T"
        ),
        "explained_variance_ratio": "explained_variance variance_ratio variance ratio singular_values_ components_",
        "coordinates.shape": "shape size ndim n_components",
        "to_frame()": "df pandas to_pandas to_csv to_df labels plot show",
        "quality": "trustworthiness stress score continuity kl_divergence_",
    },
    "Neighbours": {
        "labels": "words tokens word token names keys texts",
        "values": "scores similarities distances similarity score cosine distance cosines",
        "rows": "ids indices index idx id",
        "to_frame()": "df pandas to_pandas to_csv to_dict tolist to_list items",
    },
    "Tabular": {
        "to_frame()": "df pandas to_pandas to_csv to_df dataframe plot show to_list",
        "columns()": "keys names items tolist",
    },
    "WithoutRows": {
        "matrix(length)": "vectors weight shape values array numpy data similarity rows labels bias to_numpy",
        "profile(distances)": "kernel slopes decay curve",
    },
}
"""The same for attributes of results and encodings, by class."""

NEEDLESS = {
    "no code of a model is ever run; leave it out": "trust_remote_code",
    "only tables are read, into memory; leave it out, and convert them with table.to_torch(dtype=…)": (
        "device device_map dtype torch_dtype low_cpu_mem_usage load_in_8bit quantization_config"
    ),
    "set HFPOSEMB_CACHE for our cache and HF_HOME for that of huggingface_hub": "cache_dir cache cache_folder",
    "set HF_HUB_OFFLINE=1": "local_files_only offline",
    "write it behind the name: 'owner/name/folder'": "subfolder folder",
    "cosine does so; for others scale the rows before from_arrays": "normalize normalise normed",
    "results have .labels, .rows and .values; leave it out": "return_distance return_scores indices_only",
}
"""What arguments that other libraries have come to here, for those that no argument stands for."""


def _plain(name: str) -> str:
    """Write a name in one case, without separators, in British spelling and in the singular."""
    text = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    for other, ours in (
        ("neighbor", "neighbour"),
        ("centered", "centred"),
        ("center", "centre"),
        ("color", "colour"),
        ("ized", "ised"),
    ):
        text = text.replace(other, ours)
    return (text.removeprefix("get") or text).removesuffix("s") or name


def meant(name: str, known: Iterable[str]) -> list[str]:
    """Return which of the known names somebody means by another, the likeliest first, at most three.

    >>> from hfposemb.guesses import meant
    >>> meant("top_k", ["k", "metric"]), meant("Neighbors", ["norms", "neighbours"]), meant("xyz", ["k"])
    (['k'], ['neighbours'], [])
    """
    plain: dict[str, str] = {}
    for one in known:
        plain.setdefault(_plain(one), one)
    asked = _plain(name)
    if asked in plain:
        return [plain[asked]]
    found = [one for one in plain.values() if asked in _synonyms(one)]
    return (found or _close(asked, plain))[:3]


def _synonyms(name: str) -> set[str]:
    return {_plain(one) for one in SYNONYMS.get(name, "").split()}


def _close(asked: str, plain: dict[str, str], *, n: int = 3, cutoff: float = 0.6) -> list[str]:
    from difflib import get_close_matches

    return [plain[one] for one in get_close_matches(asked, plain, n=n, cutoff=cutoff)]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: "" or “; did you mean …?”."""
    found = meant(str(name)[:80], known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def unknown_choice(argument: str, given: object, choices: Sequence[str]) -> InputError:
    """Return the error for a value that is none of the choices of an argument."""
    *most, last = (f'"{one}"' for one in choices)
    return InputError(
        f"{argument} must be {', '.join(most)} or {last}; got {given!r:.40}{did_you_mean(given, choices)}"
    )


def unknown_attribute(owner: object, name: str, known: Iterable[str], *, what: str, **named: str) -> AttributeError:
    """Return the error for an attribute that does not exist, with what to write instead.

    Args:
        owner: Object that was asked.
        name: The attribute.
        known: Names of its attributes.
        what: Start of the message, such as ``module 'hfposemb'``.
        named: What ``{table}`` and ``{source}`` are called in the answer.
    """
    said = f"{what} has no attribute {name!r}"
    if not name.startswith("_"):  # others are asked for by machines
        said += _answer(name, {_plain(one): one for one in known}, type(owner), named)
    return AttributeError(said, name=name, obj=owner)


def _answer(name: str, plain: dict[str, str], owner: type, named: dict[str, str]) -> str:
    import sys

    asked = _plain(name)
    if asked in plain:
        return f"; did you mean {plain[asked]}?"
    words: dict[str, str] = {}
    of_table = bool(named) and "." not in named["table"].removeprefix("model.position.")
    if not named:
        answers = [pair for kind in owner.__mro__ for pair in OF_RESULTS.get(kind.__name__, {}).items()]
    else:  # a table is asked for what is its own
        answers = sorted(ANSWERS.items(), key=lambda pair: pair[0].startswith("{table}") != of_table)
    for answer, names in answers:
        for one in names.split():
            words.setdefault(_plain(one), answer)
    known = words.get(asked, "")
    if of_table and "{table}" not in known and "show" not in known and (found := _elsewhere(name)):
        return f"; write {named['table']}{found}"
    if known:
        known = known.format(**named)
        return f"; write {known}" if named else f"; did you mean {known}?"
    if name in sys.modules[__package__].__all__:
        return f"; write hpe.{name}(…)"
    if close := dict.fromkeys(_close(asked, {**words, **plain}, cutoff=0.75)):
        return f"; did you mean {' or '.join(one.format(**named) for one in list(close)[:2])}?"
    return "; dir() lists its attributes"


def _elsewhere(name: str) -> str:
    """Return how a table has an attribute of NumPy's arrays or of data frames; "" for others."""
    import sys

    kinds = {".vectors": ("numpy", "ndarray"), ".to_frame()": ("pandas", "DataFrame")}
    for how, (module, kind) in kinds.items():
        if hasattr(getattr(sys.modules.get(module), kind, None), name):
            return f"{how}.{name}"
    return ""


class _AnsweringType(ABCMeta):
    """Class of classes that answer, too: to an attribute that they do not have, and to one value that is no field."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            known = [one for one in type.__dir__(cls) if not one.startswith("_")]
            what = f"class {cls.__name__!r}"
            raise unknown_attribute(cls, name, known, what=what, table="model.token", source="model")

        def __call__(cls, *given: Any, **fields: Any) -> Any:
            made = cls.__dict__.get("_made")
            if made is not None and len(given) + len(fields) < 2:
                raise TypeError(f"{cls.__name__} is not made by its name; write {made}")
            return super().__call__(*given, **fields)


class Answering(metaclass=_AnsweringType):
    """Mixin of objects that answer to an unknown attribute with what to write instead.

    ``_called`` says what the table and the source are called in the answer; results have neither. ``_made`` is how to
    make what nobody makes by the name of its class.
    """

    _called: ClassVar[dict[str, str]] = {}
    _made: ClassVar[str | None] = None

    def _names(self) -> dict[str, str]:
        return self._called

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError``: there is no such attribute."""
            what = f"{type(self).__name__!r} object"
            named = {} if name.startswith("_") else self._names()
            raise unknown_attribute(self, name, _public(self), what=what, **named)

    def __dir__(self) -> list[str]:
        """Return the public attributes."""
        return sorted(_public(self))


def _public(owner: object) -> set[str]:
    return {one for one in object.__dir__(owner) if not one.startswith("_")}


def answering(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Return a function that explains arguments that it does not have or take, as the public name of a module."""
    from functools import wraps

    code, name = function.__code__, function.__name__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    placed = None if code.co_flags & 0x04 else code.co_argcount  # *args
    kinds = {one: kind for one, kind in function.__annotations__.items() if set(kind.split(" | ")) <= {*_FITS}}

    @wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        if not (code.co_flags & 0x08 or options.keys() <= set(named)):  # **options
            wrong = next(one for one in options if one not in named)
            left = [one for one in named if one not in options]
            raise TypeError(f"{name}() has no argument {wrong!r}; {_instead(wrong, left, named)}")
        if placed is not None and len(given) > placed:
            raise TypeError(f"{name}() {_placed(named[:placed], named[placed:], len(given))}")
        for one, value in (*zip(named[: code.co_argcount], given, strict=False), *options.items()):
            if one in kinds and not _fits(value, kinds[one]):
                said = _described(value, kinds[one])
                if any(_fits(other, kinds[one]) for other in given):
                    said += f"; the order is {', '.join(named[:placed])}"
                raise InputError(f"{one} of {name}() must be {_kind(kinds[one])}; got {said}")
        return function(*given, **options)

    called.__module__ = module  # so that it is pickled by its public name
    return called


def _placed(placed: Sequence[str], others: Sequence[str], count: int) -> str:
    """Return what is wrong with too many values without names."""
    named = f"with names:{''.join(f' {one}=' for one in others)}"
    if not placed:
        return f"takes nothing without a name; write its arguments {named}"
    end = f", and the others {named}" if others else ""
    return f"takes {', '.join(placed)} without names, and got {count} values; write several rows as one list{end}"


def _instead(wrong: str, left: Sequence[str], named: Sequence[str]) -> str:
    """Return what to write instead of an argument that a function does not have."""
    near = meant(wrong, left)
    if near == ["umap"]:
        return f"write umap=hpe.UMAPParameters({wrong}=…)"
    if near:
        return f"did you mean {'= or '.join(near)}=?"
    said = next((said for said, names in NEEDLESS.items() if wrong in names.split()), None)
    return said or f"its arguments are {', '.join(named)}"


def _of_class(name: str) -> Callable[[Any], bool]:
    return lambda value: any(one.__name__ == name for one in type(value).__mro__)


_CLASSES = ("Embeddings", "EmbeddingTable", "PositionAddition", "UMAPParameters")
_FITS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: hasattr(value, "__index__"),
    "float": lambda value: hasattr(value, "__float__") or hasattr(value, "__index__"),
    "str": lambda value: isinstance(value, (str, os.PathLike)),
    "Path": lambda value: isinstance(value, (str, os.PathLike)),
    "None": lambda value: value is None,
    **{name: _of_class(name) for name in _CLASSES},
}
"""What a value must have for an annotation, of those whose mistakes would end inside a computation."""

_KINDS = {"int": "a whole number", "float": "a number", "str": "a text", "Path": "a path", "None": "None"}


def _fits(value: object, annotation: str) -> bool:
    return any(_FITS[kind](value) for kind in annotation.split(" | "))


def _kind(annotation: str) -> str:
    parts = annotation.split(" | ")
    return " or ".join(_KINDS.get(part) or f"{'an' if part[0] in 'AEIOU' else 'a'} {part}" for part in parts)


def _described(value: object, wanted: str) -> str:
    """Return a value of the wrong kind in an error message, with how to make the wanted one of it."""
    if isinstance(value, (str, int, float)):
        said = f"{value!r:.80}"
        if isinstance(value, str) and "Embedding" in wanted:
            said += f"; open it first: hpe.extract({said}){'.token' if wanted == 'EmbeddingTable' else ''}"
        return said
    said = type(value).__name__
    if "Embedding" not in wanted:
        return said
    if "EmbeddingTable" in wanted and hasattr(value, "positions"):
        return f"{said}; give its .token or .position.table"
    if "EmbeddingTable" in wanted and hasattr(value, "table"):
        return f"{said}; give its .table"
    of_arrays = "hpe.from_arrays(token=vectors)" + (".token" if "EmbeddingTable" in wanted else "")
    return f"{said}; write {of_arrays}" if hasattr(value, "shape") and not _FITS["EmbeddingTable"](value) else said
