"""Where a report of pytest has scripts: said by the plugin, read by errors. Imports nothing, as the plugin must not."""

#: Whether scripts that show a failure again stand in sections of the plugin's, not in the failure's text.
scripts_have_sections = False
