"""Allocators on recorded learning curves of whole models: how long until most of the gain is there?"""
