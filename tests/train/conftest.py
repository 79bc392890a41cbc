"""This file's being here lets the tests below import this folder's helpers."""
