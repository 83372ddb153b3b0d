"""The web dashboard: a client of the REST API. Its module ``app`` loads NiceGUI, about half a second of CPU."""
