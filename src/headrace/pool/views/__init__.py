"""The same pool behind other libraries' interfaces."""
