"""The text of a Pig script: statements with their places, read by a grammar of lark."""
