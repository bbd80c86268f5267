"""Facts of the config classes of transformers 5.24 by model type, as text.

What a class sets where a config is silent; the text model inside a multimodal one; and which models
have positions of another kind.
"""

from __future__ import annotations

__all__ = ["REFUSED", "SIZES", "WRAPPED"]

# hidden_size, num_attention_heads, head_dim and max_position_embeddings of a class: nothing where
# it sets nothing, or works it out from the others. Of MLA, qk_rope_head_dim in place of head_dim.
_SIZES = """
afmoe:2048,16,128,16384 apertus:4096,32,,65536 apertus1p5:4096,32,,65536 arcee:2560,32,,4096
aria:4096,32,,2048 axk1:7168,64,64,32768 axk2:2048,32,32,131072 bailing_hybrid:2560,32,64,262144
bamba:4096,32,,262144 beam:5120,48,128,8192 bitnet:2560,20,,2048
blt_global_transformer:2048,16,,4096 blt_local_decoder:1024,16,,24576
blt_local_encoder:1024,16,,24576 blt_patcher:768,12,,8192 chameleon:4096,32,,4096
codegen:4096,16,,2048 cohere:8192,64,,8192 cohere2:8192,64,,8192 cohere2_moe:8192,64,128,8192
cohere_compass:8192,64,,8192 cosmos3_edge:2048,16,128,131072 csm:2048,32,,2048
csm_depth_decoder:1024,8,,33 cwm:6144,48,128,131072 dbrx:2048,16,,2048 deepseek_ocr2:4096,32,,2048
deepseek_ocr2_encoder:4096,32,,32768 deepseek_v2:4096,32,64,2048 deepseek_v3:7168,128,64,4096
deepseek_v32:7168,128,64,163840 deepseek_v4:4096,64,512,1048576 dia_decoder:2048,16,128,3072
dia_encoder:1024,16,128,1024 diffllama:2048,32,,2048 diffusion_gemma:2304,8,256,131072
doge:1024,8,,2048 dory:2560,16,256,8192 dots1:4608,32,,2048 dots3_note:5120,128,64,524288
dots3_note_audio_encoder:1280,20,64,6000 embedding_gemma2:512,4,256,262144 emu3:4096,32,,9216
ernie4_5:1024,16,128,131072 ernie4_5_moe:2560,20,,131072 ernie4_5_vl_moe:2560,20,,131072
esm:768,12,,1026 esmc:2560,40,,2048 eurobert:768,12,,8192 evolla:4096,32,,8192
exaone:4096,32,,4096 exaone4:4096,32,,2048 exaone_moe:4096,32,,2048 falcon:4544,71,,2048
falcon_h1:4096,32,,8192 falcon_mamba:768,,, flex_olmo:4096,32,,4096 flint:2048,32,128,262144
gemma:3072,16,256,8192 gemma2:2304,8,256,8192 gemma3:2304,8,256,131072 gemma3n:2048,8,256,32768
gemma4:2304,8,256,131072 gemma4_unified:2304,8,256,262144 glm:4096,32,128,131072
glm4:4096,32,128,131072 glm4_moe:4096,96,,131072 glm4_moe_lite:2048,20,64,202752
glm4v:4096,32,,32768 glm4v_moe:4096,96,,65536 glm5_next:4096,64,0,1048576
glm_image:4096,32,,131072 glm_moe_dsa:6144,64,64,202752 glm_ocr:1024,16,,131072
glmasr_encoder:1280,20,,1500 gpt_neox:6144,64,,2048 gpt_neox_japanese:2560,32,,2048
gpt_oss:2880,64,64,131072 gptj:4096,16,,2048 gradium_phonon_tts:768,12,,8192 granite:4096,32,,2048
granite4_vision:4096,32,,2048 granite_docling:1024,16,,32768 granite_swa:2560,20,,8192
granitemoe:4096,32,,2048 granitemoe_swa:4096,32,,2048 granitemoehybrid:4096,32,,2048
granitemoeshared:4096,32,,2048 gte:768,12,,8192 helium:2560,20,128,4096
higgs_audio_v2:3072,24,128,2048 hrm:1536,12,128,2048 hunyuan_v1_dense:4096,32,,2048
hunyuan_v1_moe:4096,32,,2048 hy_v3:4096,64,128,131072 hy_v4:2816,32,64,262144
hy_v4_vl:6144,64,64,262144 hyperclovax:4096,32,,2048 idefics:4096,32,,2048
internlm3:4096,32,128,32768 iquestcoder:5120,40,128,131072 jais2:3328,26,,8192
jamba:4096,32,,262144 jetmoe:2048,32,128,4096 jina_embeddings_v3:1024,16,,8194
kimi_linear:2304,32,64,1048576 kolibri1:2560,48,128,262144 kyutai_speech_to_text:2048,32,,750
laguna:2048,48,128,131072 lara_mini:1024,16,128,131072 lasr_encoder:512,8,,10000
lfm2:2560,32,,128000 lfm2_moe:2048,32,,128000 lfm3:2048,16,128,128000 llama:4096,32,,2048
llama4:5120,40,128,131072 longcat_flash:6144,64,64,131072 mamba:768,,, mamba2:4096,,64,
mellum:2304,32,128,131072 mimi:512,8,,8000 mimi_decoder:512,8,,8000 mimi_encoder:512,8,,8000
mimo_v2_flash:4096,64,192,131072 minicpm3:2560,40,32,32768 minimax:4096,32,,131072
minimax_m2:3072,48,128,196608 minimax_m3_vl:6144,64,128,524288 ministral:4096,32,,131072
ministral3:4096,32,128,262144 mistral:4096,32,,131072 mistral4:4096,32,64,1048576
mixtral:4096,32,,131072 mllama:4096,32,,131072 modernbert:768,12,,8192
modernbert-decoder:768,12,,8192 molmo2:4096,32,128,36864 moonshine:288,8,,512
moonshine_streaming:320,8,,4096 moshi:4096,32,,3000 muse_glimmer:6656,32,128,131072
muse_glimmer_assistant:6656,32,128,131072 muse_spark:8192,128,64,1048576 nemotron:6144,48,,4096
nemotron3_5_transcribe_asr_audio:1280,10,,5000 nemotron3_5_transcribe_word_timestamp:1280,16,,5000
nemotron3_diarization_audio:512,8,,5000 nemotron_h:4096,32,128,4096 neomme:1024,16,64,16384
neucodec:1024,16,64,4096 nomic_bert:768,12,,2048 olmo:4096,32,,2048 olmo2:4096,32,,2048
olmo3:4096,32,,2048 olmo_hybrid:3840,30,,65536 olmoe:2048,16,,4096
openai_privacy_filter:640,14,64,131072 paddleocr_vl:1024,16,128,131072
pe_audio_encoder:1792,14,128,10000 pe_audio_video_encoder:1792,14,128,10000
pe_video_encoder:1792,14,128,10000 persimmon:4096,64,,16384 phi:2048,32,,2048 phi3:3072,32,,4096
phi4_multimodal:3072,32,,131072 phimoe:4096,32,,131072 pocket_tts:1024,16,64,8192
pocket_tts_audio_tokenizer:512,8,,8000 pocket_tts_audio_tokenizer_decoder:512,8,,8000
pocket_tts_audio_tokenizer_encoder:512,8,,8000 qwen2:4096,32,,32768 qwen2_5_omni:3584,28,,32768
qwen2_5_omni_talker:3584,28,128,32768 qwen2_5_vl:8192,64,,32768 qwen2_moe:2048,16,,32768
qwen2_vl:8192,64,,32768 qwen3:4096,32,128,32768 qwen3_5:4096,16,256,32768
qwen3_5_moe:2048,16,256,32768 qwen3_moe:2048,32,,32768 qwen3_next:2048,16,256,32768
qwen3_omni_moe:2048,28,,32768 qwen3_omni_moe_talker:1024,16,,32768
qwen3_omni_moe_talker_code_predictor:1024,16,128,32768 qwen3_vl:4096,32,128,128000
qwen3_vl_moe:2048,16,,128000 qwen4_exp:2048,16,256,32768 recurrent_gemma:2560,10,,
roformer:768,12,,1536 sarvam_mla:4096,64,64,4096 sarvam_moe:4096,64,64,131072
seed_oss:4096,80,128,524288 smollm3:2048,16,,32768 solar_open:4096,64,128,131072
stablelm:2560,32,,4096 starcoder2:3072,24,,4096 step3p5:4096,64,128,128000
t5_gemma_module:2304,8,256,8192 t5gemma2:2304,8,256,131072 t5gemma2_decoder:2304,8,256,131072
timesfm2_5:1280,16,80,16384 ultrabert:4096,32,,32768 unlimited_ocr:1280,10,,32768
vaultgemma:2304,8,256,8192 voxtral_realtime:3072,,, voxtral_realtime_encoder:1280,32,64,1500
xcodec2:1024,16,64,4096 youtu:2048,16,64,131072 zamba:3712,16,,4096 zamba2:2560,32,,4096
zaya:2048,8,128,131072
"""
SIZES = {
    name: tuple(int(n) if n else None for n in numbers.split(","))
    for name, _, numbers in (entry.partition(":") for entry in _SIZES.split())
}

# The text model of a multimodal one, where its text_config leaves the type out.
_WRAPPED = {
    "dia_decoder": "dia",
    "t5_gemma_module": "t5gemma",
    "cohere2": "aya_vision cohere2_vision",
    "deepseek_v3": "kimi_k25",
    "exaone4": "exaone4_5",
    "gemma": "colpali paligemma",
    "gemma3": "shieldgemma2",
    "gemma4_unified": "gemma4_unified_assistant",
    "glm4v": "glm46v glmga",
    "granite": "granite_speech granite_speech_plus",
    "hyperclovax": "hyperclovax_vision_v2",
    "lfm2": "lfm2_vl",
    "lfm3": "lfm3_vl",
    "llama": (
        "deepseek_vl deepseek_vl_hybrid idefics3 janus llava llava_next llava_next_video omniasr "
        "perception_lm smolvlm video_llava vipllava voxtral"
    ),
    "mistral": "idefics2 mistral3",
    "modernbert": "colmodernvbert modernvbert pe_audio pe_audio_video pe_video",
    "nemotron_h": "nemo_speechlm nemotron_h_omni",
    "persimmon": "fuyu",
    "qwen2": (
        "audioflamingo3 fast_vlm got_ocr2 internvl llava_onevision musicflamingo ovis2 "
        "pp_chart2table qwen2_audio vibevoice vibevoice_asr video_llama_3"
    ),
    "qwen2_5_omni": "qwen2_5_omni_thinker",
    "qwen2_vl": "colqwen2",
    "qwen3": "fun_asr_nano lighton_ocr moss_transcribe_diarize qianfan_ocr qwen3_asr",
    "qwen3_5": "jev minicpm_ocr minicpmv4_6 minicpmv4_7",
    "qwen3_omni_moe": "qwen3_omni_moe_thinker",
    "qwen3_vl": "cosmos3_omni",
    "t5gemma2": "t5gemma2_encoder",
    "ultrabert": "ultravbert",
}
WRAPPED = {outer: inner for inner, names in _WRAPPED.items() for outer in names.split()}

# Models that no plan is made of, by what they have instead; a vision tower has a plan of its own.
_REFUSED = {
    "ALiBi, no rotary embedding: see alibi_bias": "bloom mpt",
    "a learned table, no rotary embedding: see lookup": (
        "albert bart bert big_bird biogpt camembert clip clip_text_model distilbert electra gpt2 "
        "gpt_bigcode gpt_neo imagegpt led longformer mbart openai-gpt opt roberta trocr xlm-roberta"
    ),
    "sinusoids, no rotary embedding: see sinusoidal": (
        "ctrl m2m_100 marian pegasus speech_to_text whisper xglm"
    ),
    "buckets of relative positions, no rotary embedding: see relative_bias": (
        "deberta deberta-v2 longt5 mpnet mt5 switch_transformers t5 udop umt5"
    ),
    "a bias by distance, no rotary embedding": (
        "inkling_mm_model inkling inkling2 inkling2_loop inkling2_loop_text"
    ),
    "four rotary embeddings: give its global_config, encoder_config, decoder_config or "
    "patcher_config": "blt",
    "a rotary embedding that turns backwards: use rope(..., inverse=True) with the plan of this "
    "config without model_type": "nanochat",
    "a rotary embedding with trained frequencies, which are in its weights": "mistral_large4",
    "a rotary embedding that turns the two channels of a pair by different axes: no plan says "
    "that": "hunyuan_vl",
    "a rotary embedding of the first head only: no plan says that": "qwen2_5_omni_dit",
    "a rotary embedding that turns values too: no plan says that": "clvp clvp_decoder clvp_encoder",
    "a rotary embedding of what comes before the projections: no plan says that": (
        "seamless_m4t wav2vec2-bert wav2vec2-conformer"
    ),
    "a rotary embedding of time stamps, points or atoms: no plan says that": ("esmfold2 lightglue"),
    'the rotary embedding of a grid: see axial_plan(..., convention="qwen2_vl")': (
        "cohere_compass_vision dots3_note_vision_encoder ernie4_5_vl_moe_vision exaone4_5_vision "
        "glm4v_moe_vision glm4v_vision glm5_next_vision glm_ocr_vision lfm3_vl_vision mlcd "
        "mlcd_vision_model muse_glimmer_vision muse_spark_vision paddleocr_vl_vision "
        "qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen2_vl_vision qwen3_5_moe_vision "
        "qwen3_5_vision qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision qwen3_vl_vision "
        "qwen4_exp_vision video_llama_3_vision"
    ),
    'the rotary embedding of a grid: see axial_plan(..., convention="pixtral")': "pixtral",
    'the rotary embedding of a grid: see axial_plan(..., convention="llama4")': (
        "llama4_vision_model"
    ),
    'the rotary embedding of a grid: see axial_plan(..., convention="dinov3")': (
        "dinov3_vit eomt_dinov3 sapiens2"
    ),
    "the rotary embedding of a grid, in an order of its own: see RopePlan(..., axis=...)": (
        "edgetam_video efficientloftr gemma4_vision inkling2_vision kimi_k25_vision "
        "minimax_m3_vl_vision sam2_video sam3_tracker_video sam3_vit_model step3p5_vision vjepa2"
    ),
}
REFUSED = {name: why for why, names in _REFUSED.items() for name in names.split()}
