"""Answers to names that people try, from transformers, sentence-transformers, gensim, scikit-learn, numpy and umap."""

from __future__ import annotations

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
    "draws": "ndraw sample permutation nsample nperm",
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
        "AutoModelForMaskedLM BertModel GPT2Model fetch get load_embeddings from_checkpoint snapshot hf_hub_download "
        "safetensors load_facebook_model fasttext glove TransformerModel pipeline source api"
    ),
    "{source}.token": (
        "get_input_embeddings wte word_embeddings tokens embeddings embed_tokens embedding word words "
        "token_embeddings input_embeddings word_embedding embedding_matrix W_E token_embedding tok_embeddings shared "
        "input token_table get_token_embeddings vocab_embeddings wv"
    ),
    "{source}.position": (
        "wpe position_embeddings embed_positions get_position_embeddings position_embedding pos pe "
        "positional_encoding position_encoding positional_embeddings W_pos position_table rope rotary alibi RoPE "
        "get_position_encoding apply_rotary_pos_emb positional_embedding pos_embed position_ids rotary_emb inv_freq"
    ),
    "{source}.head": "get_output_embeddings lm_head output_embeddings unembedding W_U unembed output_head output cls",
    "{source}.token_type": "segment segments token_type_embeddings segment_embeddings",
    "{source}.inputs('some text')": (
        "encode forward tokenize tokenizer embed predict embed_text get_embeddings encode_text call generate "
        "last_hidden_state hidden_states embed_documents embed_query input_ids"
    ),
    "{source}.config": "AutoConfig get_config cfg configuration settings",
    "{source}.tables": (
        "keys items values state_dict parameters named_parameters layers list_tables list modules info summary "
        "describe head_names roles"
    ),
    "{table}.vectors": (
        "weight weights numpy values data array to_numpy syn0 matrix X toarray T tolist vector as_array vecs "
        "get_normed_vectors to_list asarray raw mat vectors embedding embeddings rows_array get_weights ndarray"
    ),
    "{table}['king']": "get_vector word_vec vec get_row loc iloc at lookup get_mean_vector get_word_vector item",
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
    "{table}.to_torch()": "torch cpu detach cuda to pt tensor to_tensor as_tensor float half from_numpy",
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
        "to_frame()": "df pandas to_pandas to_csv to_df",
        "quality": "trustworthiness stress score continuity kl_divergence_",
    },
    "Neighbours": {
        "labels": "words tokens word token names keys texts",
        "values": "scores similarities distances similarity score cosine distance cosines",
        "rows": "ids indices index idx id",
        "to_frame()": "df pandas to_pandas to_csv to_dict tolist to_list items",
    },
    "Tabular": {
        "to_frame()": "df pandas to_pandas to_csv to_df dataframe",
        "columns()": "keys names items tolist",
    },
    "WithoutRows": {
        "matrix(length)": "vectors weight shape values array numpy data similarity rows labels bias to_numpy",
        "profile(distances)": "kernel slopes decay curve",
    },
}
"""The same for attributes of results and encodings, by class."""


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


def _close(asked: str, plain: dict[str, str]) -> list[str]:
    from difflib import get_close_matches

    return [plain[one] for one in get_close_matches(asked, plain, n=3, cutoff=0.6)]


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
    asked = _plain(name)
    if asked in plain:
        return f"; did you mean {plain[asked]}?"
    words: dict[str, str] = {}
    if not named:
        answers = [pair for kind in owner.__mro__ for pair in OF_RESULTS.get(kind.__name__, {}).items()]
    else:  # a table is asked for what is its own
        alone = named["table"] == "table"
        answers = sorted(ANSWERS.items(), key=lambda pair: pair[0].startswith("{table}") != alone)
    for answer, names in answers:
        for one in names.split():
            words.setdefault(_plain(one), answer.format(**named))
    if asked in words:
        return f"; write {words[asked]}" if named else f"; did you mean {words[asked]}?"
    if found := _close(asked, {**words, **plain}):
        return f"; did you mean {' or '.join(dict.fromkeys(found))}?"
    return "; dir() lists its attributes"


class Answering:
    """Mixin of objects that answer to an unknown attribute with what to write instead.

    ``_called`` says what the table and the source are called in the answer; results have neither.
    """

    _called: ClassVar[dict[str, str]] = {}

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError``: there is no such attribute."""
            what = f"{type(self).__name__!r} object"
            raise unknown_attribute(self, name, _public(self), what=what, **self._called)

    def __dir__(self) -> list[str]:
        """Return the public attributes."""
        return sorted(_public(self))


def _public(owner: object) -> set[str]:
    return {one for one in object.__dir__(owner) if not one.startswith("_")}


def answering(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Return a function that explains arguments that it does not have, as the public name of a module."""
    from functools import wraps

    code = function.__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    placed = None if code.co_flags & 0x04 else code.co_argcount  # *args

    @wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        if not options.keys() <= set(named):
            wrong = next(one for one in options if one not in named)
            near = meant(wrong, [one for one in named if one not in options])
            said = f"did you mean {'= or '.join(near)}=?" if near else f"its arguments are {', '.join(named)}"
            if near == ["umap"]:
                said = f"write umap=hpe.UMAPParameters({wrong}=…)"
            raise TypeError(f"{function.__name__}() has no argument {wrong!r}; {said}")
        if placed is not None and len(given) > placed:
            others = "".join(f" {one}=" for one in named[placed:])
            raise TypeError(
                f"{function.__name__}() takes {', '.join(named[:placed])} without names, and got {len(given)} values; "
                f"write several rows as one list{f', and the others with names:{others}' if others else ''}"
            )
        return function(*given, **options)

    called.__module__ = module  # so that it is pickled by its public name
    return called
