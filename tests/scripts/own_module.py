"""Follow the positions of a module of one's own while it is trained."""

import torch
from torch import nn

import hfposemb as hpe


class Tagger(nn.Module):
    """Words and positions, added, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.places = nn.Embedding(32, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, ids):
        return self.head(self.words(ids) + self.places(torch.arange(ids.shape[1])))


torch.manual_seed(0)
model = Tagger()
before = hpe.extract(model, tables={"token": "words.weight", "position": "places.weight"})
first = before.position.table.vectors.copy()

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
ids = torch.randint(50, (8, 32))
wanted = (torch.arange(32) % 2).expand(8, 32)
for _ in range(200):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(ids).transpose(1, 2), wanted)
    loss.backward()
    optimizer.step()

after = hpe.extract(model, tables={"token": "words.weight", "position": "places.weight"})
changes = hpe.row_changes(hpe.from_arrays(position=first).position, after.position).to_frame()
waves = hpe.strength_by_period(after.position)
print(changes.head(3).round(3).to_string(index=False))
strongest = waves.periods[waves.strength.argmax()]
print("positions that changed", len(changes), "strongest period", round(float(strongest), 1))
