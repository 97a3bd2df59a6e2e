{% snapshot customers_snapshot %}
{{ config(target_schema='shop', unique_key='id', strategy='timestamp', updated_at='changed_at') }}
select id, name, country, cast(changed_at as timestamp) as changed_at from {{ ref('raw_customers') }}
{% endsnapshot %}
