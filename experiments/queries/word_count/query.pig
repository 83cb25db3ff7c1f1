-- The words of a text, split at white space, with how often each occurs.
input = load '$in' as (line);
words = foreach input generate flatten(TOKENIZE(line)) as word;
grpd = group words by word;
cntd = foreach grpd generate group, COUNT(words) as n;
store cntd into '$out';
