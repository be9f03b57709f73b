"""Versions that several packages need beside themselves."""

TORCH = "torch==2.13.0"
TRANSFORMERS = "transformers==5.23.0"
EINOPS = "einops==0.8.2"
EINX = ("einx==0.4.3", "frozendict==2.5.1")
EINOPS_UTILS = "torch-einops-utils==0.2.0"
ROTARY = "rotary-embedding-torch==0.9.1"
LOCAL_ATTENTION = "local-attention==1.11.2"
HYPER_CONNECTIONS = "hyper-connections==0.4.11"
AXIAL = "axial-positional-embedding==0.3.12"
COLT5 = "colt5-attention==0.11.2"
PRODUCT_KEYS = "product-key-memory==0.3.0"
