DROP TABLE tenantcron.live_log;
