"""Whether pytest's report shows scripts in a section of their own: set by the plugin, read by errors. Imports
nothing, because the plugin must not."""

#: Whether scripts that reproduce a failure are shown in the plugin's sections, not in the failure's text.
scripts_have_sections = False
