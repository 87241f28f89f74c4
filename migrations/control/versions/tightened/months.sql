-- A month is dropped a day after its end at the earliest, the shortest retention that can be set. The
-- caller has made sure that nothing will end in that month yet; see store/rows/history.py.
CREATE OR REPLACE FUNCTION tenantcron.drop_month(first_day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $function$
DECLARE
    of_table text;
    month_end timestamptz := date_trunc('month', first_day::timestamptz) + interval '1 month';
BEGIN
    -- Months that are further ahead hold nothing: they are made two months ahead.
    IF month_end > statement_timestamp() - interval '1 day'
        AND first_day < statement_timestamp() + interval '3 months'
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the month of %s has not been over for a day', first_day);
    END IF;
    FOREACH of_table IN ARRAY ARRAY['execution_past', 'execution_attempt'] LOOP
        EXECUTE format(
            'DROP TABLE IF EXISTS tenantcron.%I', of_table || to_char(first_day, '_YYYY_MM')
        );
    END LOOP;
END
$function$;
