"""How long the API's pages of one large job take, on each kind of database."""
