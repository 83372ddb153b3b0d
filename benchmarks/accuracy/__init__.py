"""What a precision costs in top-1: small networks that are trained here."""
