select hour(time) h, channel, count(*) n, sum(added) a, count(distinct page) s from wikiticker
where not isRobot group by hour(time), channel
