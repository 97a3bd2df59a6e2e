{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['day'], on_schema_change='sync_all_columns') }}
select count(*) as orders, cast(day as date) as day from {{ ref('raw_orders') }}
{% if is_incremental() %}where cast(day as date) >= date'2026-01-02'{% endif %}
group by day
