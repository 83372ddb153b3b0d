from tunesmith.sdk.tuned import TunedModel as TunedModel
from tunesmith.sdk.tuning import tune as tune

__version__: str
