"""An app of yours with hfposemb in one of its tabs: ``python docs/plugin.py`` serves it on http://127.0.0.1:7860/lab."""

import gradio as gr
import uvicorn
from fastapi import FastAPI
from hfposemb.app import panel

with gr.Blocks(title="Language lab") as lab:
    with gr.Tab("Notes"):
        gr.Textbox(label="What I expect to see", lines=4)
    with gr.Tab("Embeddings"):
        panel(sources=["sample:bert", "sinusoidal:256x128"])

app = gr.mount_gradio_app(FastAPI(), lab, path="/lab")

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=7860)
