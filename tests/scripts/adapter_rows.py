"""Train some tokens of a model with PEFT, and list the rows that changed."""

import peft
import torch
import transformers

import hfposemb as hpe

torch.manual_seed(0)
config = transformers.GPT2Config(vocab_size=61, n_positions=20, n_embd=16, n_layer=1, n_head=2)
transformers.GPT2LMHeadModel(config).save_pretrained("base")

base = transformers.AutoModelForCausalLM.from_pretrained("base")
tokens = peft.TrainableTokensConfig(target_modules=["wte"], token_indices=[3, 7, 11])
model = peft.get_peft_model(base, tokens)
optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=1.0)
ids = torch.tensor([[3, 7, 11, 3, 7, 11]])
for _ in range(3):
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
model.save_pretrained("adapter")

before, after = hpe.extract("./base"), hpe.extract("./adapter", base="./base")
changed = hpe.row_changes(before.token, after.token)
print(changed)
print("changed rows", sorted(changed.to_frame()["row"].tolist()))
