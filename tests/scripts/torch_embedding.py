"""Put two tables into torch, and compute the first layer's input of a sentence."""

import torch

import hfposemb as hpe

bert = hpe.extract("sample:bert")
words = torch.nn.Embedding.from_pretrained(torch.as_tensor(bert.token))
places = torch.nn.Embedding.from_pretrained(torch.as_tensor(bert.position.table))

inputs = bert.inputs("the king saw the queen")
ids, positions = torch.as_tensor(inputs.ids), torch.as_tensor(inputs.positions)
added = words(ids) + places(positions) + torch.as_tensor(inputs.type)
print(f"largest difference {(added - torch.as_tensor(inputs.sum)).abs().max().item():.6f}")
