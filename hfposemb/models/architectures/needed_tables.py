"""The tables that every checkpoint of a model type stores, by role.

Written by ``python -m tests.architectures.needed`` from the small models of transformers 5.24.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .config_values import class_of

_TYPES = """
    1.token_type 2.token_type 3.token_type 4.token_type 5.token_type 6.token_type position token token_type:
        tapas
    audio text.position text.token_type token: clap
    audio token vision.position: phi4_multimodal
    audio.position token: audioflamingo3 clvp moss_transcribe_diarize musicflamingo qwen2_audio voxtral
    box.position h.position position token token_type w.position x.position y.position: lilt
    character.position token_type: canine
    column embeddings.position position row: unlimited_ocr_vision
    column position row: pp_formulanet_vision sam sam_hq sam_hq_vision_model sam_vision_model seggpt
    column.position row.position: kosmos_2_5_vision_model pix2struct_vision_model
    decoder encoder token: fastspeech2_conformer fastspeech2_conformer_with_hifigan funnel longt5 mt5 pop2piano
        switch_transformers t5 umt5
    decoder encoder.column.position encoder.row.position token: pix2struct
    decoder encoder.relative encoder.x.position encoder.y.position token: udop
    decoder.position decoder.token encoder.position token: fsmt
    decoder.position encoder token: cohere_asr
    decoder.position encoder.column encoder.position encoder.row token: pp_formulanet
    decoder.position encoder.position: autoformer informer time_series_transformer
    decoder.position encoder.position token: bart bigbird_pegasus blenderbot blenderbot-small led marian mbart
        mvp pegasus plbart prophetnet whisper
    decoder.position token: moonshine_streaming
    embeddings.position position: depth_pro
    encoder text.position text.token_type token: grounding-dino mm-grounding-dino
    encoder token: granite_speech granite_speech_plus
    encoder.mid.position position: yolos
    encoder.token_type position token: dpr
    entity_embeddings.position entity_embeddings.token_type position token token_type: luke
    fine_acoustics.position position semantic.position token: bark
    h.position pos_embed.position position token token_type w.position x.position y.position: layoutlmv3
    h.position position token token_type w.position x.position y.position: layoutlm
    position: aimv2_vision_model altclip_vision_model audio-spectrogram-transformer blip_2_vision_model
        blip_vision_model bridgetower_vision_model chinese_clip_vision_model clap_audio_model clip_vision_model
        clipseg_vision_model cosmos3_edge_vision deit depth_anything dinov2 dinov2_with_registers dpt eomt
        flava_image_model git_vision_model glm_image_vision granite_docling_vision granite_speech5_ctc
        groupvit_vision_model hunyuan_vl_vision hy_v4_vl_vision idefics2_vision idefics3_vision ijepa
        instructblip_vision_model instructblipvideo_vision_model internvl_vision janus_vision_model
        kosmos_2_vision_model lw_detr mask2former metaclip_2_vision_model mgp-str minicpm_ocr_vision
        minicpmv4_6_vision minicpmv4_7_vision molmo2_vision moss_transcribe_diarize_audio neucodec oneformer
        ovis2_vision owlv2_vision_model owlvit_vision_model patchtst phi4_multimodal_audio
        phi4_multimodal_vision pixio prompt_depth_anything qianfan_ocr_vision radio sam3_tracker
        sam3_vision_model sam3_vit_model sew-d siglip2_vision_model siglip_vision_model smolvlm_vision swin
        timesformer tipsv2_dpt tipsv2_vision_model videomt vit vit_mae vit_msn vitdet vitmatte vitpose vivit
        wavlm xclip_vision_model xcodec2 zoedepth
    position post_tile_positional_embedding.position pre_tile_positional_embedding.position: mllama_vision_model
    position relative token: mpnet
    position text.position token vision.position: sam3_video xclip
    position token: aimv2_text_model biogpt clip_text_model clipseg_text_model clvp_decoder deberta deberta-v2
        decision_transformer distilbert esm flaubert gpt-sw3 gpt2 gpt_bigcode gpt_neo groupvit_text_model
        imagegpt inkling_mm_model inkling_text instructblip_qformer instructblipvideo_qformer
        metaclip_2_text_model openai-gpt opt owlv2_text_model owlvit_text_model pp_formulanet_text
        sam3_lite_text_text_model siglip2_text_model siglip_text_model trocr videoprism_text_model vits
        xclip_text_model xlm xlnet
    position token token_type: albert align_text_model altclip_text_model bert big_bird bridgetower_text_model
        bros camembert chinese_clip_text_model clap_text_model convbert cpmant data2vec-text electra ernie
        flava_text_model fnet ibert longformer lxmert markuplm megatron-bert mobilebert mra nystromformer
        rembert roberta roberta-prelayernorm roc_bert splinter squeezebert xlm-roberta xlm-roberta-xl xmod yoso
    position window.position: sam2 sam2_hiera_det_model sam2_vision_model
    qformer.position text.decoder.position token vision.position: instructblip instructblipvideo
    spatial.position temporal.position: videoprism_vision_model
    text.decoder.position token vision.position: blip-2
    text.position text.token_type token vision.position: altclip chinese_clip flava
    text.position token token_type vision.column.position vision.position vision.row.position vision.token_type:
        tvp
    text.position token token_type vision.position vision.token_type: visual_bert
    text.position token video.spatial.position video.temporal.position: videoprism
    text.position token vision.position: aimv2 blip clip clipseg git groupvit metaclip_2 owlv2 owlvit sam3
        sam3_lite_text siglip siglip2
    text.position vision.position: sam3_tracker_video
    text.position vision.position vision.window.position: edgetam_video sam2_video
    text.token_type token vision.column.position vision.row.position: kosmos-2.5
    token: EvollaModel afmoe arcee aria_text axk1 axk2 bailing_hybrid bamba beam bitnet bloom blt_patcher canary
        codegen cohere cohere2 cohere2_moe colqwen2 cosmos3_edge_text csm_depth_decoder_model ctrl cwm
        deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 dia diffllama doge dots1 dots3_note_text
        embedding_gemma2 embedding_gemma2_text emu3_text_model ernie4_5 ernie4_5_moe ernie4_5_vl_moe
        ernie4_5_vl_moe_text esmc eurobert evolla exaone exaone4 exaone4_5 exaone_moe falcon falcon_h1
        falcon_mamba flex_olmo flint fun_asr_nano fuyu gemma gemma2 gemma3_text gemma3n_text gemma4_text
        gemma4_unified gemma4_unified_text glm glm4 glm4_moe glm4_moe_lite glm4v_moe_text glm4v_text glm5_next
        glm5_next_text glm_image_text glm_moe_dsa glm_ocr glm_ocr_text glmasr gpt_neox gpt_neox_japanese gpt_oss
        gptj granite granite4_vision_text granite_docling_text granite_swa granitemoe granitemoe_swa
        granitemoehybrid granitemoeshared helium higgs_audio_v2 hrm_text hunyuan_v1_dense hunyuan_v1_moe
        hunyuan_vl_text hy_v3 hy_v4 hyperclovax hyperclovax_vision_v2 internlm3 iquestcoder jais2 jamba jetmoe
        jev kimi_linear kolibri1 kosmos_2_text_model laguna lara_mini lfm2 lfm2_moe lfm3 lfm3_vl lighton_ocr
        llama llama4_text m2m_100 mamba mamba2 mellum mimo_v2_flash minicpm3 minimax minimax_m2 minimax_m3_vl
        minimax_m3_vl_text ministral ministral3 mistral mistral3 mistral4 mistral_large4 mistral_large4_text
        mixtral mllama_text_model modernbert modernbert-decoder molmo2_text moonshine mpt muse_glimmer_text
        muse_spark_text nanochat nemotron nemotron3_5_asr nemotron_asr_streaming nemotron_h nllb-moe olmo olmo2
        olmo3 olmo_hybrid olmoe omniasr openai_privacy_filter paddleocr_vl_text parakeet_rnnt parakeet_tdt
        pe_audio pegasus_x persimmon phi phi3 phimoe pocket_tts qwen2_5_omni_talker qwen2_5_omni_text
        qwen2_5_omni_thinker qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_5_moe_text
        qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text qwen4_exp_text
        recurrent_gemma rwkv sarvam_mla sarvam_moe seamless_m4t seed_oss smollm3 solar_open speech_to_text
        stablelm starcoder2 step3p5 tipsv2_text_model ultrabert unlimited_ocr_text vaultgemma video_llama_3
        voxtral_realtime voxtral_realtime_text xglm xlstm youtu zamba2 zaya
    token token_type: gte jina_embeddings_v3 kosmos_2_5_text_model nomic_bert roformer
    token video.position vision.position: video_llava
    token vision.column vision.embeddings.position vision.position vision.row: deepseek_vl_hybrid unlimited_ocr
    token vision.column vision.position vision.row: got_ocr2 pp_chart2table
    token vision.position: aria aya_vision cohere2_vision colmodernvbert colpali cosmos3_edge cosmos3_omni
        deepseek_vl gemma3 glm46v glm4v glm4v_moe glm_image glmga granite_docling hunyuan_vl idefics idefics2
        idefics3 internvl kimi_k25 kosmos-2 lfm2_vl llava llava_next llava_next_video llava_onevision
        minicpm_ocr minicpmv4_6 minicpmv4_7 modernvbert muse_glimmer nemotron_h_omni ovis2 paddleocr_vl
        paligemma pi0 qianfan_ocr qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe shieldgemma2 smolvlm step3p7
        t5gemma2 tipsv2 ultravbert vipllava
    vision.column vision.position vision.row: deepseek_ocr2_vision
    vision.position: kimi_k25_vision muse_glimmer_vision muse_spark_vision
    vision.x.position vision.y.position: gemma4_vision
"""
"""Roles of the class that the type is named after, and its types."""

_CLASSES = """
    : seamless_m4t/SeamlessM4TCodeHifiGan
    audio token: seamless_m4t/SeamlessM4TForSpeechToText
    decoder.position vision.position: vit_mae/ViTMAEForPreTraining
    embeddings.position position token vision.embeddings.token_type vision.token_type:
        visual_bert/VisualBertForPreTraining visual_bert/VisualBertForMultipleChoice
        visual_bert/VisualBertForQuestionAnswering visual_bert/VisualBertForVisualReasoning
        visual_bert/VisualBertForRegionToPhraseAlignment
    encoder.x.position encoder.y.position position token: udop/UdopEncoderModel
    h.position layoutlmv3.position position token token_type w.position x.position y.position:
        layoutlmv3/LayoutLMv3ForQuestionAnswering layoutlmv3/LayoutLMv3ForSequenceClassification
        layoutlmv3/LayoutLMv3ForTokenClassification
    mid.position position: yolos/YolosForObjectDetection
    position: blip-2/Blip2VisionModelWithProjection clip/CLIPForImageClassification
        metaclip_2/MetaClip2ForImageClassification sam3_video/Sam3TrackerModel
        siglip/SiglipForImageClassification siglip2/Siglip2ForImageClassification
        whisper/WhisperForAudioClassification
    position text.token_type token: clap_text_model/ClapTextModelWithProjection
        data2vec-text/Data2VecTextForMaskedLM data2vec-text/Data2VecTextForCausalLM
        data2vec-text/Data2VecTextForSequenceClassification data2vec-text/Data2VecTextForQuestionAnswering
        data2vec-text/Data2VecTextForTokenClassification data2vec-text/Data2VecTextForMultipleChoice
    position token: bart/BartForCausalLM bigbird_pegasus/BigBirdPegasusForCausalLM
        blenderbot/BlenderbotForCausalLM blenderbot-small/BlenderbotSmallForCausalLM
        blip-2/Blip2TextModelWithProjection funnel/FunnelBaseModel funnel/FunnelForSequenceClassification
        funnel/FunnelForMultipleChoice longt5/LongT5EncoderModel marian/MarianForCausalLM mbart/MBartForCausalLM
        mt5/MT5ForTokenClassification mt5/MT5EncoderModel mvp/MvpForCausalLM pegasus/PegasusForCausalLM
        plbart/PLBartForCausalLM prophetnet/ProphetNetForCausalLM sew-d/SEWDForCTC
        switch_transformers/SwitchTransformersEncoderModel t5/T5ForTokenClassification t5/T5EncoderModel
        umt5/UMT5ForTokenClassification umt5/UMT5EncoderModel wavlm/WavLMForCTC whisper/WhisperForCausalLM
    position window.position: edgetam_video/EdgeTamModel sam2_video/Sam2Model
    text.embeddings.position text.position token vision.position: blip/BlipForQuestionAnswering
    text.position token vision.position: blip-2/Blip2ForImageTextRetrieval
    token: cosmos3_omni/Cosmos3OmniForConditionalGeneration data2vec-audio/Data2VecAudioForCTC
        hubert/HubertForCTC marian/MarianMTModel sew/SEWForCTC unispeech/UniSpeechForCTC
        unispeech-sat/UniSpeechSatForCTC wav2vec2/Wav2Vec2ForCTC
    vision.position: paddleocr_vl_vision/PaddleOCRVisionModel
"""
"""Roles of other classes of a type, where they differ."""


def _parsed(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    for line in re.sub("\n {8}", " ", text).strip().splitlines():
        roles, _, names = line.partition(":")
        yield from ((name, frozenset(roles.split())) for name in names.split())


_BY_TYPE, _BY_CLASS = dict(_parsed(_TYPES)), dict(_parsed(_CLASSES))


def needed_tables(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the roles of the tables that a checkpoint with this configuration must store; empty if that is not known.

    A part with a configuration of its own counts only if its type is known to have the table.

    Args:
        config: The configuration, as in config.json.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or "auto_map" in config:
        return frozenset()
    named, roles = class_of(config), _BY_TYPE.get(kind, frozenset())
    differing = {name: found for name, found in _BY_CLASS.items() if name.startswith(f"{kind}/")}
    if not named and differing:
        roles = roles.intersection(*differing.values())
    roles = differing.get(f"{kind}/{named}", roles)
    return frozenset(role for role in roles if _of_part(config, role))


def _of_part(config: Mapping[str, Any], role: str) -> bool:
    part, dot, rest = role.rpartition(".")
    inner = config.get(f"{part}_config")
    if not dot or not isinstance(inner, dict):
        return True
    return rest in _BY_TYPE.get(str(inner.get("model_type")), ())
