"""How soon jobs of whole models are near their ends, with the models that are shipped and without them."""
