"""The dashboard's pages in a real browser, and the routes behind them, on a database with a million records."""
