"""Its being here lets the folders below import this folder's helpers."""
