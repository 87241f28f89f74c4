"""From text to data: events of a YAML or JSON parser, built into nodes that know their place."""
