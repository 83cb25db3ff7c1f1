"""Pig Latin as relations of the algebra: `script` reads the text, `pig_translation` gives it a meaning.

>>> from pathlib import Path
>>> from dgs.query.pig.pig_translation import Translator
>>> from dgs.query.pig.script.pig_reading import read_script
>>> script = read_script("a = LOAD 'words.txt' AS (word: chararray); b = DISTINCT a; DUMP b;", "words.pig")
>>> program = Translator(Path()).read(script)
>>> [(output.name, str(output.fields[0])) for output in program.outputs]
[('b', 'word: chararray')]
"""
