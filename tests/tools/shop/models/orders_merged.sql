{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id', on_schema_change='append_new_columns') }}
select id, customer_id, cast(day as date) as day, cast(amount as decimal(10, 2)) as amount
{% if var('second_day', false) %}, amount > 5 as is_large{% endif %}
from {{ ref('raw_orders') }}
