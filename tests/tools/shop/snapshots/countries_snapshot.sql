{% snapshot countries_snapshot %}
{{ config(target_schema='shop', unique_key='id', strategy='check', check_cols=['country'], hard_deletes='invalidate') }}
select id, country from {{ ref('raw_customers') }}
{% endsnapshot %}
